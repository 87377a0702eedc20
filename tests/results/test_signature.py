"""A signed release file says who states it; a reader with the public key takes no other."""

import hashlib
import json
import sys
from importlib.resources import files

import jsonschema
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from frames_for_laws import clinic, fit_clinic

from privatelr import ArgumentError, MissingDependencyError, ReleaseFileError, dplpsvm, dplr, load
from privatelr.results.release_files import content_hash, origin, release_file

SCHEMA = json.loads((files("privatelr.results") / "release.schema.json").read_text("utf-8"))
KEY, OTHER = (ed25519.Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2))
PUBLIC = KEY.public_key()
FINGERPRINT = hashlib.sha256(PUBLIC.public_bytes_raw()).hexdigest()[:32]
PEM, PKCS8, SPKI = (
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.PublicFormat.SubjectPublicKeyInfo,
)
PRIVATE_PEM = KEY.private_bytes(PEM, PKCS8, serialization.NoEncryption())
PUBLIC_PEM = PUBLIC.public_bytes(PEM, SPKI)
SECRET = serialization.BestAvailableEncryption(b"word")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.json"


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def write(path, document, **entries):
    path.write_text(json.dumps({**document, **entries}), encoding="utf-8")


def refusal(path, key=PUBLIC):
    with pytest.raises(ReleaseFileError) as caught:
        load(path, public_key=key)
    message = str(caught.value)
    assert "model.json': " in message
    assert message.endswith(".")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("model", [dplr, dplpsvm])
def test_a_signed_file_is_read_with_the_public_key(model, path):
    fit = fit_clinic(clinic(), model=model)
    fit.save(path, key=KEY)
    jsonschema.Draft202012Validator(SCHEMA).validate(read(path))
    loaded = load(path, public_key=PUBLIC)
    assert loaded.predict(clinic()).equals(fit.predict(clinic()))
    assert (loaded.origin.signed_by, loaded.origin.named_key) == (FINGERPRINT, FINGERPRINT)
    assert f"signed by the key {FINGERPRINT}" in " ".join(str(loaded).split())
    assert f"signed by the key {FINGERPRINT}" in loaded.card()
    assert type(loaded) is type(fit)


FORMS = {
    "object": lambda key, pem, file: key,
    "bytes": lambda key, pem, file: pem,
    "text": lambda key, pem, file: pem.decode(),
    "name": lambda key, pem, file: str(file),
    "path": lambda key, pem, file: file,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_keys_are_objects_texts_or_files(form, path, tmp_path):
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(PRIVATE_PEM)
    public.write_bytes(PUBLIC_PEM)
    fit_clinic(clinic()).save(path, key=form(KEY, PRIVATE_PEM, private))
    assert load(path, public_key=form(PUBLIC, PUBLIC_PEM, public)).origin.signed_by == FINGERPRINT


def test_without_a_key_a_signature_is_not_trusted(path):
    fit_clinic(clinic()).save(path, key=KEY)
    loaded = load(path)
    assert (loaded.origin.signed_by, loaded.origin.named_key) == (None, FINGERPRINT)
    assert "was not verified" in " ".join(str(loaded).split())
    assert "was not verified" in loaded.card()


def test_the_signature_can_be_checked_without_the_package(path):
    fit_clinic(clinic()).save(path, key=KEY)
    document = read(path)
    message = b"privatelr release file, sha256 " + document["sha256"].encode()
    PUBLIC.verify(bytes.fromhex(document["signature"]["value"]), message)


def test_what_is_not_signed_by_the_key_is_refused(path):
    fit = fit_clinic(clinic())
    fit.save(path)
    assert "the file is not signed, and public_key= asks for a signature" in refusal(path)
    fit.save(path, key=OTHER, overwrite=True)
    assert f"not the key {FINGERPRINT} of public_key=" in refusal(path)
    fit.save(path, key=KEY, overwrite=True)
    signed = read(path)
    write(path, signed, signature=None)
    assert "the file is not signed" in refusal(path)
    assert load(path).origin.named_key is None
    fit.save(path, key=OTHER, overwrite=True)
    stolen = {**read(path)["signature"], "public_key": signed["signature"]["public_key"]}
    write(path, signed, signature=stolen)
    assert f"the signature is not one of the key {FINGERPRINT}" in refusal(path)
    assert load(path).origin.signed_by is None


def changed_and_rehashed(path):
    """A signed file in which one number was changed and the hash made right again."""
    fit_clinic(clinic()).save(path, key=KEY, overwrite=True)
    document = read(path)
    document["threshold"]["value"] = 0.25
    write(path, document, sha256=content_hash(document))


def test_a_changed_content_is_refused(path):
    changed_and_rehashed(path)
    assert load(path).threshold == 0.25
    assert f"the signature is not one of the key {FINGERPRINT}" in refusal(path)


def test_a_file_of_the_first_format_has_no_signature(path):
    fit_clinic(clinic()).save(path)
    document = read(path)
    del document["signature"]
    document["version"] = 1
    write(path, document, sha256=content_hash(document))
    assert load(path).origin.named_key is None
    assert "the file is not signed" in refusal(path)


def test_nothing_is_planned_before_the_signature_is_right(path, monkeypatch):
    fit_clinic(clinic()).save(path, key=OTHER)
    monkeypatch.setattr(release_file, "restore_content", None)
    refusal(path)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (3, "key=<int>: key takes an Ed25519 private key"),
        (b"no key", "key=<bytes>: key takes"),
        (PUBLIC, "key takes an Ed25519 private key"),
        (PUBLIC_PEM, "key takes an Ed25519 private key"),
        (ec.generate_private_key(ec.SECP256R1()), "key takes an Ed25519 private key"),
        ("nowhere.pem", r"key='nowhere.pem': the file cannot be opened \(no such file"),
        (KEY.private_bytes(PEM, PKCS8, SECRET), "key=<bytes>: the key is encrypted"),
        (PRIVATE_PEM.decode().replace("M", "*"), "key=<bytes>: key takes"),
    ],
    ids=lambda x: str(x)[:20],
)
def test_what_is_no_key(key, words, path):
    with pytest.raises(ArgumentError, match=words) as caught:
        fit_clinic(clinic()).save(path, key=key)
    assert "PRIVATE" not in str(caught.value)
    assert not path.exists()


@pytest.mark.parametrize("key", [3, KEY, PRIVATE_PEM, b"", "nowhere.pem", "a\0b"])
def test_what_is_no_public_key(key, path):
    fit_clinic(clinic()).save(path, key=KEY)
    with pytest.raises(ArgumentError, match=r"^public_key="):
        load(path, public_key=key)


def test_a_missing_library_is_named(path, monkeypatch):
    fit = fit_clinic(clinic())
    fit.save(path, key=KEY)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    for ask in (
        lambda: fit.save(path, key=KEY, overwrite=True),
        lambda: load(path, public_key=PUBLIC),
    ):
        with pytest.raises(MissingDependencyError, match=r"privatelr\[signatures\]"):
            ask()
    assert load(path).origin.named_key == FINGERPRINT


def test_a_refused_key_leaves_the_file_that_was_there(path):
    path.write_text("before", encoding="utf-8")
    with pytest.raises(ArgumentError):
        fit_clinic(clinic()).save(path, key=b"", overwrite=True)
    assert path.read_text(encoding="utf-8") == "before"


def test_planted_trust_is_caught(path, monkeypatch):
    """A reader that does not look at the signature."""
    monkeypatch.setattr(origin, "require_signature", lambda *_: None)
    for law in (test_what_is_not_signed_by_the_key_is_refused, test_a_changed_content_is_refused):
        with pytest.raises(pytest.fail.Exception):
            law(path)
