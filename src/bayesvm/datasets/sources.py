"""Which real sets there are: their files, papers and labels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Where a set is, and what it is."""

    path: str  # below the data folder
    title: str
    citation: str
    target_names: tuple[str, ...]
    openml: tuple[str, int] | None = None  # name and version there
    positive: str = ""  # the label that OpenML gives to +1


SPAM = Source(
    "spambase/spambase.csv.gz",
    "Spambase: 4601 messages, 57 frequencies of words and characters",
    "Hopkins, Reeber, Forman and Suermondt (1999). Spambase. UCI Machine Learning Repository.",
    ("not spam", "spam"),
    ("spambase", 1),
    "1",
)
TOENAIL = Source(
    "toenail/toenail.csv",
    "Toenail: 1908 visits of 294 patients in a trial of two treatments",
    "De Backer, De Vroey, Lesaffre, Scheys and De Keyser (1998). Twelve weeks of continuous oral "
    "therapy for toenail onychomycosis. J. American Academy of Dermatology 38, S57-S63.",
    ("none or mild", "moderate or severe"),
)
ACATH = Source(
    "acath/acath.csv",
    "Cardiac catheterisation: 3504 patients, cholesterol missing in 1246",
    "Harrell (2001). Regression Modeling Strategies. Springer. Duke University Cardiovascular "
    "Disease Databank.",
    ("no significant disease", "significant disease"),
)
USPS = Source(
    "usps/usps.npz",
    "USPS: 7291 + 2007 handwritten digits, 16 x 16 pixels",
    "Le Cun, Boser, Denker, Henderson, Howard, Hubbard and Jackel (1990). Handwritten digit "
    "recognition with a back-propagation network. NIPS 2.",
    tuple("0123456789"),
)
USPS_RESAMPLED = Source(
    "usps/usps_resampled_3vs5.npz",
    "USPS resampled: digits 3 and 5, 767 + 773 images of 16 x 16 pixels",
    "Rasmussen and Williams (2006). Gaussian Processes for Machine Learning. MIT Press.",
    ("5", "3"),
)
SUSY_CITATION = (
    "Baldi, Sadowski and Whiteson (2014). Searching for exotic particles in high-energy physics "
    "with deep learning. Nature Communications 5, 4308."
)
SUSY = {
    "all": Source(
        "susy/susy_18features_10000rows.npz",
        "SUSY: 10000 of the 5 million collisions, 18 features",
        SUSY_CITATION,
        ("background", "signal"),
    ),
    "low": Source(
        "susy/susy_8lowlevel_standardised_21000rows.npz",
        "SUSY: 21000 of the 5 million collisions, 8 low-level features, standardised",
        SUSY_CITATION,
        ("background", "signal"),
    ),
}
GENES = {
    "metabric": Source(
        "gene_expression/metabric_tp53_237x489.npz",
        "METABRIC: 237 breast tumours, 489 expressions; TP53 status",
        "Curtis et al. (2012). Nature 486, 346-352; Pereira et al. (2016). Nature Communications "
        "7, 11479.",
        ("wild type", "mutated"),
    ),
    "gravier": Source(
        "gene_expression/gravier_breast_168x2905.npz",
        "Gravier: 168 breast tumours, 2905 log ratios of DNA copies; metastasis within 5 years",
        "Gravier et al. (2010). Genes, Chromosomes and Cancer 49, 1125-1134.",
        ("good", "poor"),
    ),
    "subramanian": Source(
        "gene_expression/subramanian_p53_50x10100.npz",
        "Subramanian: 50 cell lines of NCI-60, 10100 expressions; p53 status",
        "Subramanian et al. (2005). PNAS 102, 15545-15550.",
        ("wild type", "mutant"),
    ),
    "alon": Source(
        "gene_expression/alon_colon_62x2000.npz",
        "Alon: 62 tissues of the colon, 2000 raw intensities",
        "Alon et al. (1999). PNAS 96, 6745-6750.",
        ("normal", "tumour"),
    ),
}
RAETSCH = (
    "banana", "breast_cancer", "diabetis", "flare_solar", "german", "heart", "image", "ringnorm",
    "splice", "thyroid", "titanic", "twonorm", "waveform",
)  # fmt: skip
RAETSCH_CITATION = (
    "Rätsch, Onoda and Müller (2001). Soft margins for AdaBoost. Machine Learning 42, 287-320."
)
BENCHMARKS = {
    "ionosphere": Source(
        "small_benchmarks/ionosphere.csv",
        "Ionosphere: 351 radar returns, 34 numbers each",
        "Sigillito, Wing, Hutton and Baker (1989). Johns Hopkins APL Technical Digest 10, 262-266.",
        ("bad", "good"),
        ("ionosphere", 1),
        "g",
    ),
    "sonar": Source(
        "small_benchmarks/sonar.csv",
        "Sonar: 208 returns, 60 energies each",
        "Gorman and Sejnowski (1988). Neural Networks 1, 75-89.",
        ("rock", "mine"),
        ("sonar", 1),
        "Mine",
    ),
    "wisconsin": Source(
        "small_benchmarks/wisconsin_breast_cancer_original.csv",
        "Wisconsin breast cancer (original): 699 tumours, 9 scores; bare nuclei missing in 16",
        "Wolberg and Mangasarian (1990). PNAS 87, 9193-9196.",
        ("benign", "malignant"),
        ("breast-w", 1),
        "malignant",
    ),
    "crabs": Source(
        "small_benchmarks/crabs.csv",
        "Crabs: sex of 200 rock crabs from species, index and five measures",
        "Campbell and Mahon (1974). Australian Journal of Zoology 22, 417-425.",
        ("female", "male"),
    ),
    "pima": Source(
        "small_benchmarks/pima_diabetes.csv",
        "Pima: diabetes of 768 women, 8 numbers; zeros in glucose, pressure, triceps, insulin and "
        "mass stand for missing",
        "Smith, Everhart, Dickson, Knowler and Johannes (1988). Proc. Symposium on Computer "
        "Applications and Medical Care, 261-265.",
        ("none", "diabetes"),
        ("diabetes", 1),
        "tested_positive",
    ),
    "ripley": Source(
        "small_benchmarks/ripley_synth_train.csv",
        "Ripley's synthetic two-class problem: 250 + 1000 rows in the plane",
        "Ripley (1996). Pattern Recognition and Neural Networks. Cambridge University Press.",
        ("class 0", "class 1"),
    ),
}
