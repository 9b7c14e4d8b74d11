"""Referee: made rows of any tool, scored by tests that others wrote; what we lose stands first.

**Table** (tables.py): rows of a public data set, split by seed into training rows, of owners, and real test
rows; its public schema; rules that no real row breaks. Epsilon, delta and the relation are the task's.

**Entrant** (entrants.py): one file in programs/entrants/ that is run as `PYTHON FILE FOLDER`, by an
interpreter of its own. It reads train.csv, owners.txt and task.json (columns, epsilon, delta, seed, rows,
trust, options) of the folder and writes made.csv. Ours goes through `fedkme.release`, as a user would.
`independent` is a control: what is no better than noisy single columns has learnt nothing of pairs. A rival
of some 30 lines is added by a line in `ENTRANTS`; rows made elsewhere enter by `fedkme referee add`. CPU
seconds and peak memory are of that process and its children, imports and a simulation's own evaluation
included.

**Score** (scores.py): a function of made, training and test rows that gives named figures, or a file in
programs/scorers/ that runs in the environment of the package that wrote the test. A figure says who wrote
the test, which way is better, and by how much two releases differ without a reason (`slack`).

**Check** (checks.py): figures without made rows: rows that stand for rows, heads, a running
curator's answers, units, a dossier, an accountant.

**Environment** (environments.py): locks/NAME.txt pins all that an entrant or scorer needs; `fedkme referee
prepare` puts it into build/referee/NAME once, and nothing is fetched afterwards. An interpreter that the
user made takes its place by `--python NAME=PATH`: so do rivals that are not on PyPI. What is not there is
left out with a word.

**Result** (figures.py): one line of OUT/figures.csv a figure. Its key is table, entrant, epsilon, trust,
seed, figure, and the versions of the entrant and of the score; ours is versioned by a digest of the
product's source. Given again, a run computes the lines that the file lacks; made rows stay in OUT/made. A
run that failed or took too long is a line, too, with its reason.

**Comparison** (standing.py): for each table, epsilon, trust and figure, our mean over seeds stands beside
the best rival run here and the best published figure. Behind either by more than the slack: lost. Ahead of
or level with all: won. Without a rival: alone, which is neither. won.csv is what was won when somebody last
wrote it, with `--keep`, each with a margin that its runs measured: three standard deviations between seeds,
of ours and the rival's together. A row in it that is behind by more than slack and margin now ends the
command with exit status 1. Rivals that were not run this time count by the lines that they left in
figures.csv, if their versions are the same.

All rows are of public data sets: noise follows from the seed, and protects nobody.
"""
