"""Run trials of a study that all tasks of an array share, in a file of a volume."""

import os

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend


def objective(trial: optuna.Trial) -> float:
    """Return the loss of a training: here its minimum is at learning_rate 0.01, depth 4."""
    rate = trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True)
    depth = trial.suggest_int("depth", 1, 8)
    return (rate - 0.01) ** 2 + (depth - 4) ** 2


study = optuna.create_study(
    study_name=os.environ["STUDY"],
    storage=JournalStorage(JournalFileBackend(f"/sweep/{os.environ['STUDY']}.log")),
    load_if_exists=True,
)
study.optimize(objective, n_trials=int(os.environ["TRIALS"]))
print(f"{len(study.trials)} trials so far; best {study.best_value:.4f} with {study.best_params}")
