"""What the name of a column says of it, in the languages that tables of hospitals are in."""

from __future__ import annotations

import re
from functools import cache

from coterie.data.tables.texts import loose
from coterie.data.tables.units import CONVERSIONS, name_and_unit

SCALE_WORDS = {
    "grade", "stage", "class", "score", "level", "ecog", "asa", "nyha", "killip", "degree", "severity",
    "step", "tnm",
}  # fmt: skip
IDENTIFIERS = {
    "id", "ids", "uuid", "guid", "identifier", "patientid", "patid", "caseid", "recordid", "subjectid",
    "fallnr", "fallnummer", "fallid", "visitid", "encounterid",
}  # fmt: skip
PERSONS = {
    "pid", "mrn", "ssn", "ahv", "ahvnr", "nhs", "empi", "pseudonym", "patient", "patients", "pat", "subject",
    "subj", "person", "proband", "participant", "patiente", "paziente", "paciente", "ptid", "subjid",
    "usubjid", "randid", "rid", "nip", "ipp", "versicherter", "versicherten", "versicherte",
}  # fmt: skip
# ... with a word of numbering beside them: study_id, chart_no
NUMBERED = {"study", "chart", "dossier", "pers", "akte", "rekrutierung", "screening", "enrolment"}
NUMBERING = {
    "no", "nr", "nbr", "num", "number", "key", "index", "code", "record", "case", "row", "fall", "nummer",
    "numero", "lfd", "unnamed",
} | {str(i) for i in range(10)}  # fmt: skip
# one word of two, as some languages have it: Patientennummer
COMPOUND = re.compile(
    r"(pat|pt|patient|patienten|subject|subj|person|personen|pers|proband|probanden|participant|versicherten"
    r"|studien|study|chart|akten|dossier)"
    r"(id|nr|nbr|no|num|nummer|number|key|code|identifier|pseudonym)"
)
PERSONAL = {
    "name", "surname", "firstname", "lastname", "vorname", "nachname", "address", "street", "email", "mail",
    "prenom", "nom", "adresse", "strasse", "phone", "telephone", "telefon",
}  # fmt: skip
DATES = {
    "date", "day", "time", "datum", "birth", "born", "dob", "admission", "admitted", "visit",
}  # fmt: skip
SEX = {
    "sex", "gender", "geschlecht", "sexe", "sesso", "sexo", "male", "female", "mannlich", "weiblich", "homme",
    "femme", "maschio", "femmina", "woman",
}  # fmt: skip
BIRTH = re.compile(r"birth|born|dob|yob|geburt|geb|gebdat|gebjahr|naissance|ddn|nascita|nacimiento|jahrgang")
AGE = {"age", "alter", "eta", "edad", "alder", "leeftijd", "idade"}
# digits that are no quantity, whatever else is in the name ...
CODES = {
    "zip", "zipcode", "plz", "postcode", "postleitzahl", "postal", "npa", "phone", "telephone", "telefon",
    "telefonnummer", "tel", "fax", "icd", "icd9", "icd10", "atc", "snomed", "loinc",
    "zip3", "zip4", "zip5", "gemeindenr", "gemeindenummer",
}  # fmt: skip
# ... with or without decimals, 250.83, where nothing else is in it ...
DIAGNOSES = {
    "diag",
    "diagnosis",
    "diagnose",
    "dx",
    "hauptdiagnose",
    "nebendiagnose",
    "diagnostic",
    "diagnosi",
}
# ... or where nothing else is: a room, but no room temperature
PLACES = {
    "room", "zimmer", "zimmernummer", "chambre", "bed", "bett", "lit", "ward", "station", "department",
    "abteilung", "service", "unit", "doctor", "arzt", "physician", "medecin", "hausarzt", "behandler",
    "zimmernr", "arztnr", "arztnummer", "gemeinde", "commune", "municipality", "bettnr", "bettnummer",
    "stationsnr", "gp", "medico", "reparto", *DIAGNOSES,
    "nurse", "operator", "surgeon", "provider", "drg", "cpt", "procedure",
    "mobile", "handy", "city", "region", "canton", "country",
}  # fmt: skip
MEASURES = {
    "platelets", "platelet", "plt", "thrombocytes", "thrombozyten", "leukocytes", "leukozyten", "wbc", "rbc",
    "count", "age", "pressure", "rate", "bmi", "dose", "volume", "cost", "costs", "income", "ferritin", "ck",
    "bnp", "probnp", "ntprobnp", "alt", "ast", "ldh", "steps", "price", "score", "level", "weight", "height",
    "year", "jahr", "annee", "month", "week",
}  # fmt: skip


def words_in(name: str) -> set[str]:
    return set(loose(name).split())


def names_person(name: str) -> bool:
    """patient, patient_no, PID, Patientennummer; but no patient_weight."""
    words = words_in(name)
    numbers = NUMBERING | IDENTIFIERS
    numbered = any(not w.isdigit() for w in words & numbers) and words & NUMBERED
    compound = any(COMPOUND.fullmatch(w) for w in words)
    return compound or bool((words & PERSONS or numbered) and words <= PERSONS | NUMBERED | numbers)


def names_identifier(name: str) -> bool:
    return bool(words_in(name) & IDENTIFIERS) or names_person(name)


def names_numbering(name: str) -> bool:
    """Nothing but nr, case no, record."""
    return words_in(name) <= NUMBERING | PERSONS | IDENTIFIERS


def names_code(name: str, whole: bool = True) -> bool:
    """A code by its name; a diagnosis has decimals, a ward or a doctor has a `whole` number."""
    words = words_in(name)
    only = {w for w in words if not w.isdigit()} - NUMBERING - IDENTIFIERS
    if words & CODES or (only and only <= DIAGNOSES):
        return True
    return whole and (bool(only and only <= PLACES) or words == {"code"})


def names_place(name: str) -> bool:
    """What many patients share: a ward, a doctor, a postcode."""
    return bool(words_in(name) & (PLACES | CODES))


def names_measure(name: str) -> bool:
    """A quantity by its name, or by a unit behind it."""
    return bool(name_and_unit(name)[1]) or bool(words_in(name) & (MEASURES | measured_words()))


@cache
def measured_words() -> set[str]:
    return {word for known in CONVERSIONS for word in known.words}


def names_sex(name: str) -> bool:
    return bool(words_in(name) & SEX)


def names_birth(name: str) -> bool:
    return bool(BIRTH.search(loose(name)))


def names_age(name: str) -> bool:
    return bool(words_in(name) & AGE)
