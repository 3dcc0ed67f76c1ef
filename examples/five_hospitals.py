"""Five hospitals' tables with everything that is wrong with real ones. All patients are invented.

    python examples/five_hospitals.py FOLDER

lakeview     as one would wish it, but for a byte-order mark, blanks behind cells and a patient number
northgate    semicolons, decimal commas, German names and words, glucose in mmol/l and no word about it
riverside    pounds, inches and Fahrenheit, -9 and 999 for missing, other dates, a coded reason of discharge
saint_mary   capitals, no cholesterol and no creatinine, "?" for missing, the target as 0.0 and 1.0
hilltop      a rehabilitation clinic whose patients are all ill; thousands with commas, a name one letter off

patients.csv are new patients of lakeview, to predict.
"""

from __future__ import annotations

import csv
import datetime
import math
import random
import sys
from pathlib import Path
from typing import Any

SEED = 16
SIZES = {"lakeview": 320, "northgate": 260, "riverside": 240, "saint_mary": 180, "hilltop": 60}
REMARKS = (
    "patient reports {a} since {n} days, otherwise in a good state",
    "known {a}, seen by the family doctor {n} weeks ago",
    "{a} under exertion, no fever, sleeps {n} hours",
)
COMPLAINTS = ("chest pain", "short breath", "palpitations", "dizziness", "tiredness", "swollen legs")


def patient(rng: random.Random, shift: float) -> dict[str, Any]:
    """One patient in common units; `shift` is how far a hospital's patients are from the average."""
    age = min(max(rng.gauss(61 + 4 * shift, 12), 22), 95)
    female = rng.random() < 0.46
    smoker = rng.random() < 0.3
    systolic = rng.gauss(126 + 0.35 * (age - 60), 15)
    cholesterol = max(rng.gauss(205 + 12 * shift, 38), 95)
    glucose = max(rng.gauss(104, 16), 62) + (rng.expovariate(1 / 55) if rng.random() < 0.2 else 0)
    creatinine = max(rng.gauss(0.95 + 0.004 * (age - 60), 0.2), 0.4)
    pain = rng.choices(("none", "atypical", "typical"), (5, 3, 2 + 2 * smoker))[0]
    risk = (age - 61) / 12 * 0.8 + 0.7 * smoker + (cholesterol - 205) / 38 * 0.5 + (systolic - 126) / 15 * 0.4
    risk += (glucose - 110) / 40 * 0.4 + {"none": -0.6, "atypical": 0.2, "typical": 1.3}[pain] - 0.5 * female
    ill = rng.random() < 1 / (1 + math.exp(-(risk - 0.2 - 0.5 * shift) * 1.3))
    step = risk + rng.gauss(0, 0.8)
    return {
        "age": age,
        "female": female,
        "weight": rng.gauss(70 if female else 83, 12),
        "height": rng.gauss(165 if female else 178, 7),
        "temperature": rng.gauss(36.8, 0.4),
        "systolic": systolic,
        "cholesterol": cholesterol,
        "glucose": glucose,
        "creatinine": creatinine,
        "platelets": max(rng.gauss(245000, 55000), 40000),
        "smoker": smoker,
        "chest_pain": pain,
        "activity": "low" if step > 0.9 else "medium" if step > -0.5 else "high",
        "admitted": datetime.date(2023, 1, 1) + datetime.timedelta(days=rng.randrange(700)),
        "remark": rng.choice(REMARKS).format(a=rng.choice(COMPLAINTS), n=rng.randrange(2, 12)),
        "ill": ill,
    }


def some_missing(rng: random.Random, cell: str, mark: str, share: float) -> str:
    return mark if rng.random() < share else cell


def lakeview(rng: random.Random, i: int, p: dict[str, Any]) -> dict[str, str]:
    return {
        "patient_no": str(4100 + i),
        "age": f"{p['age']:.0f}",
        "sex": "f" if p["female"] else "m",
        "weight (kg)": some_missing(rng, f"{p['weight']:.1f}", "", 0.04),
        "height (cm)": f"{p['height']:.0f}",
        "temperature (C)": f"{p['temperature']:.1f} ",
        "systolic": f"{p['systolic']:.0f}",
        "cholesterol (mg/dl)": some_missing(rng, f"{p['cholesterol']:.0f}", "NA", 0.06),
        "glucose": f"{p['glucose']:.0f}",
        "creatinine (mg/dl)": f"{p['creatinine']:.2f}",
        "platelets": f"{p['platelets']:.0f}",
        "smoker": "yes" if p["smoker"] else "no",
        "chest_pain": p["chest_pain"],
        "activity": p["activity"],
        "admitted": p["admitted"].isoformat(),
        "remark": p["remark"],
        "country": "CH",
        "heart_disease": "yes" if p["ill"] else "no",
    }


def northgate(rng: random.Random, i: int, p: dict[str, Any]) -> dict[str, str]:
    def comma(value: float, digits: int) -> str:
        return f"{value:.{digits}f}".replace(".", ",")

    return {
        "Fall-ID": f"N{70000 + 7 * i}",
        "Alter": f"{p['age']:.0f}",
        "Geschlecht": "w" if p["female"] else "m",
        "Gewicht": comma(p["weight"], 1),
        "Height": f"{p['height']:.0f}",
        "Temperature": comma(p["temperature"], 1),
        "Systolic": f"{p['systolic']:.0f}",
        "Cholesterol": some_missing(rng, f"{p['cholesterol']:.0f}", "", 0.1),
        "Glucose": comma(p["glucose"] / 18.016, 1),
        "Creatinine (umol/l)": f"{p['creatinine'] * 88.42:.0f}",
        "Platelets": f"{p['platelets']:.0f}",
        "Raucher": "ja" if p["smoker"] else "nein",
        "Chest pain": p["chest_pain"].capitalize(),
        "Activity": p["activity"],
        "Admitted": p["admitted"].strftime("%d.%m.%Y"),
        "Remark": p["remark"],
        "Country": "CH",
        "heart disease": "ja" if p["ill"] else "nein",
    }


def riverside(rng: random.Random, i: int, p: dict[str, Any]) -> dict[str, str]:
    return {
        "heart_disease": "Y" if p["ill"] else "N",
        "mrn": str(880000 + 13 * i),
        "age": some_missing(rng, f"{p['age']:.0f}", "-9", 0.03),
        "gender": "female" if p["female"] else "male",
        "weight_lb": some_missing(rng, f"{p['weight'] / 0.45359237:.0f}", "999", 0.05),
        "height (in)": f"{p['height'] / 2.54:.1f}",
        "temperature (F)": f"{p['temperature'] * 1.8 + 32:.1f}",
        "systolic": some_missing(rng, f"{p['systolic']:.0f}", "999", 0.03),
        "cholesterol (mg/dl)": f"{p['cholesterol']:.0f}",
        "glucose": f"{p['glucose']:.0f}",
        "creatinine (mg/dl)": some_missing(rng, f"{p['creatinine']:.2f}", "-9", 0.04),
        "platelets": f"{p['platelets']:.0f}",
        "smoker": "Y" if p["smoker"] else "N",
        "chest_pain": p["chest_pain"],
        "activity": p["activity"],
        "admitted": p["admitted"].strftime("%m/%d/%Y"),
        "discharge_code": rng.choice("AB") if not p["ill"] else rng.choice("CD"),
        "remark": p["remark"],
        "country": "US",
    }


def saint_mary(rng: random.Random, i: int, p: dict[str, Any]) -> dict[str, str]:
    return {
        "ACTIVITY": p["activity"].upper(),
        "AGE": f"{p['age']:.0f}",
        "SEX": "F" if p["female"] else "M",
        "SMOKER": some_missing(rng, "1" if p["smoker"] else "0", "?", 0.05),
        "CHEST_PAIN": some_missing(rng, p["chest_pain"], "?", 0.03),
        "WEIGHT (KG)": f"{p['weight']:.0f}",
        "HEIGHT (CM)": f"{p['height']:.0f}",
        "TEMPERATURE (C)": f"{p['temperature']:.1f}",
        "SYSTOLIC": some_missing(rng, f"{p['systolic']:.0f}", "?", 0.04),
        "GLUCOSE": f"{p['glucose']:.0f}",
        "PLATELETS": f"{p['platelets']:.0f}",
        "ADMITTED": p["admitted"].isoformat(),
        "HEART_DISEASE": "1.0" if p["ill"] else "0.0",
        "PATIENT_NO": str(100 + i),
        "COUNTRY": "CH",
    }


def hilltop(rng: random.Random, i: int, p: dict[str, Any]) -> dict[str, str]:
    found = lakeview(rng, i, p)
    found["sistolic"] = found.pop("systolic")
    found["platelets"] = f"{round(p['platelets'], -3):,.0f}"
    del found["country"]
    return found


def rows_of(name: str, rng: random.Random) -> list[dict[str, str]]:
    """A hospital's patients as it writes them; hilltop takes only the ill."""
    writes = {f.__name__: f for f in (lakeview, northgate, riverside, saint_mary, hilltop)}[name]
    shift = {"lakeview": 0.0, "northgate": 0.4, "riverside": -0.5, "saint_mary": 0.2, "hilltop": 0.8}[name]
    rows = list[dict[str, str]]()
    while len(rows) < SIZES[name]:
        found = patient(rng, shift)
        if name != "hilltop" or found["ill"]:
            rows.append(writes(rng, len(rows), found))
    return rows


def write(path: Path, rows: list[dict[str, str]], separator: str = ",", mark: bool = False) -> None:
    with path.open("w", encoding="utf-8-sig" if mark else "utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)


def main(folder: str) -> None:
    here = Path(folder)
    here.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(SIZES):
        rows = rows_of(name, random.Random(SEED + number))
        write(here / f"{name}.csv", rows, ";" if name == "northgate" else ",", name == "lakeview")
    rng = random.Random(SEED - 1)
    new = [lakeview(rng, 900 + i, patient(rng, 0.0)) for i in range(12)]
    for row in new:
        del row["heart_disease"]
    write(here / "patients.csv", new)
    print(f"{len(SIZES)} hospitals and patients.csv, all invented: {here}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/five_hospitals.py FOLDER")
    main(sys.argv[1])
