"""torchmetrics: classification, regression, image and text metrics, and a collection of metrics."""

import torch
import torchmetrics
from torchmetrics import functional as F

from harness import integers, tensor, uniform


def case_classification():
    scores = torch.softmax(tensor(30, 4), 1)
    labels = integers(30, below=4)
    options = {"task": "multiclass", "num_classes": 4}
    names = ("accuracy", "precision", "recall", "f1_score", "auroc", "average_precision", "cohen_kappa", "matthews_corrcoef",
             "confusion_matrix", "calibration_error", "specificity", "jaccard_index")
    return {name: getattr(F, name)(scores, labels, **options) for name in names}


def case_regression():
    x, y = uniform(25, low=0.5, high=2), uniform(25, seed=1, low=0.5, high=2)
    names = ("mean_squared_error", "mean_absolute_error", "pearson_corrcoef", "spearman_corrcoef", "r2_score", "explained_variance",
             "concordance_corrcoef", "mean_squared_log_error", "cosine_similarity", "kendall_rank_corrcoef")
    return {name: getattr(F, name)(*((x[None], y[None]) if name == "cosine_similarity" else (x, y))) for name in names}


def case_collection():
    metrics = torchmetrics.MetricCollection(
        {
            "accuracy": torchmetrics.classification.MulticlassAccuracy(4),
            "confusion": torchmetrics.classification.MulticlassConfusionMatrix(4),
            "mean": torchmetrics.classification.MulticlassF1Score(4),
        }
    )
    for step in range(3):
        metrics.update(tensor(10, 4, seed=step), integers(10, below=4, seed=step))
    return metrics.compute()


def case_images():
    x, y = uniform(2, 3, 24, 24), uniform(2, 3, 24, 24, seed=1)
    return [F.structural_similarity_index_measure(x, y, data_range=1.0), F.peak_signal_noise_ratio(x, y, data_range=1.0),
            F.universal_image_quality_index(x, y), F.total_variation(x)]


def case_text():
    texts = (["the cat sat on the mat"], ["a cat sat on a mat"])
    return [F.word_error_rate(*texts), F.char_error_rate(*texts), F.bleu_score(texts[0], [texts[1]]), F.perplexity(tensor(2, 5, 7), integers(2, 5, below=7))]
