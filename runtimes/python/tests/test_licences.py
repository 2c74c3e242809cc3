"""Packages of the image have allowed licences, and the image contains their texts."""

import importlib.metadata
import re

ALLOWED = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "PSF-2.0", "ZPL-2.1"}
# MPL-2.0 requires the source of the files under it: this package is shipped as its source, unchanged.
EXCEPTIONS = {"certifi": {"MPL-2.0"}}
# The classifiers of packages without an SPDX expression.
SAID = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache software license": "Apache-2.0",
    "bsd license": "BSD-3-Clause",
    "mit license": "MIT",
    "mit": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "zope public license": "ZPL-2.1",
}


def distributions(app):
    found = list(importlib.metadata.distributions(path=[str(app / "site-packages")]))
    assert len(found) > 20, "the list of packages is not what it was"
    return found


def licences(metadata):
    """Return the licences in a package's metadata, as SPDX identifiers."""
    if expression := metadata.get("License-Expression"):
        return set(re.split(r" (?:AND|OR) ", expression.replace("(", "").replace(")", "")))
    texts = [one.rsplit(" :: ", 1)[1] for one in metadata.get_all("Classifier", []) if one.startswith("License ::")]
    texts += [metadata["License"]] if not texts and metadata.get("License") else []
    return {SAID.get(text.lower(), text) for text in texts}


def test_packages_of_the_image_have_licences_that_are_allowed(app):
    for one in distributions(app):
        said = licences(one.metadata)
        assert said, f"{one.name} does not say its licence"
        assert said <= ALLOWED | EXCEPTIONS.get(one.name, set()), f"{one.name} is under {said}: review it, then add it to the list"


def test_licences_of_packages_are_in_the_image(app):
    without = set()
    for one in distributions(app):
        texts = [file for file in one.files or () if re.search(r"(?i)(licen[cs]e|copying|notice)", file.name)]
        if not any(file.locate().is_file() for file in texts):
            without.add(one.name)
    # This package's archive lacks its licence, which is the same as that of opentelemetry-api by the same authors.
    assert without == {"opentelemetry-util-http"}
