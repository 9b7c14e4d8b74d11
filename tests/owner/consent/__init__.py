"""An owner's policy, its status and its approvals."""
