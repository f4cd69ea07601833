"""Steps for each library: a token, calls of the API, and continuing after a 401 and a 429.

The library performs all of OAuth. Steps at the server are requested from the test that runs
this, a line each way.
"""

import faulthandler
import json
import os
import sys
import time
from urllib.parse import quote, urljoin

from requests.adapters import HTTPAdapter

# The server listens on loopback without TLS, which the libraries reject by default.
os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
# In seconds; no step takes a tenth of it.
faulthandler.dump_traceback_later(90, exit=True)

GIVEN = json.loads(os.environ["DAFTAR_CLIENT"])
BASE = GIVEN["url"] + "/api/v2"
TOKEN_URL = BASE + "/oauth/token"
FORM = GIVEN["form"]
CLIENT_ID = GIVEN["client_id"]
CLIENT_SECRET = GIVEN["client_secret"]
SCOPE = "individual:read individual:create"
NATIONAL_ID = "urn:svc:vocab:id-type#national_id"
FEMALE = "urn:iso:std:iso:5218#2"
TIMEOUT_S = 30


class FromAddress(HTTPAdapter):
    """Connects from the address that is this test's own: the server counts by address."""

    def init_poolmanager(self, *args, **more):
        super().init_poolmanager(*args, source_address=(GIVEN["source"], 0), **more)


def prepare(session):
    """A session of requests that goes straight to the server and keeps its last answer."""
    session.trust_env = False
    session.mount("http://", FromAddress())
    session.hooks["response"].append(lambda answer, *_, **__: setattr(session, "last_answer", answer))
    return session


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {found!r}, expected {expected!r}")
    print(f"{what}: {found!r}", flush=True)


def please(what):
    """Asks the test for something, and waits until it is done."""
    print(f"please {what}", flush=True)
    expect(what, sys.stdin.readline().strip(), "done")


class Walk:
    """The way through the API with a session that sends its token, and what fetches another one."""

    def __init__(self, session, fetch_token, refused, code_of):
        self.session = session
        self.fetch_token = fetch_token
        self.refused = refused
        self.code_of = code_of
        self.new_tokens = 0

    def send(self, method, path, **more):
        return self.session.request(method, urljoin(BASE, path), timeout=TIMEOUT_S, **more)

    def call(self, method, path, **more):
        """As a careful program calls: with a new token where the old one is not taken any more."""
        answer = self.send(method, path, **more)
        if answer.status_code != 401:
            return answer
        expect("challenge", answer.headers["WWW-Authenticate"].split()[0], "Bearer")
        self.new_tokens += 1
        self.fetch_token()
        return self.send(method, path, **more)

    def refusal_of_a_token(self):
        """The error of a token request that fails, as the library reports it."""
        try:
            self.fetch_token()
        except self.refused as error:
            return self.code_of(error)
        return None

    def run(self):
        token = self.fetch_token()
        expect("token type", token["token_type"], "Bearer")
        expect("lifetime", int(token["expires_in"]), 86400)
        expect("scope", token["scope"], SCOPE if isinstance(token["scope"], str) else SCOPE.split())
        path = self.registers_and_finds()
        self.goes_on_after_401(path)
        self.goes_on_after_429(path)
        self.is_told_of_too_many_tokens()
        print("walked", flush=True)

    def registers_and_finds(self):
        address = f"{NATIONAL_ID}|{GIVEN['person']}"
        identifier = {"system": NATIONAL_ID, "value": GIVEN["person"]}
        person = {"identifier": [identifier], "name": {"family": "Diallo", "given": "Amina"}, "gender": FEMALE}
        created = self.call("POST", "/api/v2/Individual", json=person)
        expect("created", created.status_code, 201)
        path = "/api/v2/Individual/" + quote(address, safe="")
        for place in (created.headers["Location"], path):
            read = self.call("GET", place)
            expect("read", (read.status_code, read.headers["ETag"]), (200, created.headers["ETag"]))
            expect("identifier", read.json()["identifier"], [identifier])
        found = self.call("GET", "/api/v2/Individual", params={"identifier": address, "gender": FEMALE})
        expect("found", (found.status_code, found.json()["total"]), (200, 1))
        unknown = self.call("GET", path + "0")
        expect("unknown", (unknown.status_code, unknown.json()["status"]), (404, 404))
        forbidden = self.call("GET", "/api/v2/Group")
        expect("forbidden", forbidden.status_code, 403)
        return path

    def goes_on_after_401(self, path):
        please("revoke")
        expect("read after the revocation", self.call("GET", path).status_code, 200)
        expect("new tokens", self.new_tokens, 1)
        please("disable")
        refused = self.send("GET", path)
        expect("read while disabled", (refused.status_code, refused.json()["detail"]), (401, "the client is disabled"))
        expect("token while disabled", self.refusal_of_a_token(), "invalid_client")
        please("enable")
        expect("read after that", self.call("GET", path).status_code, 200)
        expect("new tokens", self.new_tokens, 2)

    def goes_on_after_429(self, path):
        answer = self.send("GET", path)
        for _ in range(500):
            if answer.status_code == 429:
                break
            expect("remaining", answer.headers["X-RateLimit-Limit"], "60")
            answer = self.send("GET", path)
        expect("too many", answer.status_code, 429)
        wait_s = int(answer.headers["Retry-After"])
        expect("wait", wait_s, 1)
        time.sleep(wait_s)
        expect("read after the wait", self.send("GET", path).status_code, 200)

    def is_told_of_too_many_tokens(self):
        code = None
        for _ in range(10):
            code = self.refusal_of_a_token()
            if code is not None:
                break
        expect("too many tokens", code, "temporarily_unavailable")
        answer = self.session.last_answer
        expect("status", answer.status_code, 429)
        expect("wait is documented", 1 <= int(answer.headers["Retry-After"]) <= 60, True)
