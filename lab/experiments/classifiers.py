"""The twelve classifiers of DP-MERF and DP-HP: eleven of scikit-learn, and XGBoost if it is installed."""

import importlib
import importlib.util
from collections.abc import Sequence

from sim.evaluation.classifiers import Models, quick_models

NAMES = ("LR", "RF", "GNB", "BNB", "SVM", "DT", "LDA", "Ada", "MLP", "Bag", "GBM", "XGB")


def installed(names: Sequence[str] = NAMES) -> tuple[str, ...]:
    """Names of the classifiers whose packages are installed."""
    absent = () if importlib.util.find_spec("xgboost") else ("XGB",)
    return tuple(name for name in names if name not in absent)


def models(names: Sequence[str]) -> Models:
    """Makers of classifiers, by name."""
    from sklearn import discriminant_analysis, ensemble, naive_bayes, neural_network, svm

    makers: Models = {
        **quick_models(),
        "RF": lambda seed: ensemble.RandomForestClassifier(random_state=seed),
        "BNB": lambda seed: naive_bayes.BernoulliNB(alpha=0.02),
        "SVM": lambda seed: svm.LinearSVC(random_state=seed, max_iter=5000),
        "LDA": lambda seed: discriminant_analysis.LinearDiscriminantAnalysis(),
        "Ada": lambda seed: ensemble.AdaBoostClassifier(
            n_estimators=100, learning_rate=0.7, random_state=seed
        ),
        "MLP": lambda seed: neural_network.MLPClassifier(alpha=1.0, early_stopping=True, random_state=seed),
        "Bag": lambda seed: ensemble.BaggingClassifier(n_estimators=20, max_samples=0.1, random_state=seed),
        "GBM": lambda seed: ensemble.GradientBoostingClassifier(
            subsample=0.1, n_estimators=50, random_state=seed
        ),
        "XGB": lambda seed: importlib.import_module("xgboost").XGBClassifier(n_jobs=1, random_state=seed),
    }
    return {name: makers[name] for name in names}
