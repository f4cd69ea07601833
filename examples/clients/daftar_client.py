"""A daftar client that uses only the standard library (Python 3.9 and later)."""

import base64
import json
import os
import threading
import time
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

# A token is renewed five minutes before its end; one valid for less than 25 minutes, after four fifths of its lifetime.
MARGIN_S = 300
TIMEOUT_S = 60


class Answer:
    def __init__(self, status, headers, content):
        self.status, self.headers, self.content = status, headers, content

    def json(self):
        return json.loads(self.content)


class Daftar:
    """Create one per program: its threads share a token; with `token_file`, all programs of a machine do."""

    def __init__(self, url, client_id, client_secret, token_file=None, clock=time.time, sleep=time.sleep):
        self.url, self.token_file, self.clock, self.sleep = url.rstrip("/"), token_file, clock, sleep
        pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
        self.basic = "Basic " + base64.b64encode(pair.encode()).decode()
        self.kept, self.lock = None, threading.Lock()

    def call(self, method, path, body=None, headers=None):
        """One call, such as `call("GET", "/Individual?_count=5")`. Does not raise on an error response: check `status`."""
        content = None if body is None else json.dumps(body).encode()
        more = dict(headers or {}, **({} if body is None else {"Content-Type": "application/json"}))
        token = self.token()
        answer = self._patiently(method, path, content, dict(more, Authorization=f"Bearer {token}"))
        if answer.status == 401:
            # A 401 is returned before any processing, so even a POST can be retried. Once: a second 401 has another cause.
            token = self.token(refused=token)
            answer = self._patiently(method, path, content, dict(more, Authorization=f"Bearer {token}"))
        return answer

    def token(self, refused=None):
        """Returns a token that stays valid for a while and is not the rejected one."""
        with self.lock:
            kept = self.kept or self._read()
            if kept and kept["access_token"] != refused and self.clock() < kept["renew_at"]:
                self.kept = kept
                return kept["access_token"]
            asked_at = self.clock()
            headers = {"Authorization": self.basic, "Content-Type": "application/x-www-form-urlencoded"}
            answer = self._patiently("POST", "/oauth/token", b"grant_type=client_credentials", headers)
            if answer.status != 200:
                raise RuntimeError(f"no token: {answer.status} {answer.content.decode(errors='replace')}")
            given = answer.json()
            lifetime = given["expires_in"]
            renew_at = asked_at + lifetime - min(MARGIN_S, lifetime / 5)
            self.kept = {"access_token": given["access_token"], "renew_at": renew_at}
            self._write()
            return given["access_token"]

    def _patiently(self, method, path, content, headers):
        """Sends a request, and waits as long as a 429 or a 503 requires."""
        for waits_left in (4, 3, 2, 1, 0):
            answer = self._send(method, path, content, headers)
            wait_s = answer.headers.get("Retry-After")
            if answer.status not in (429, 503) or wait_s is None or int(wait_s) > TIMEOUT_S or not waits_left:
                return answer
            self.sleep(int(wait_s))

    def _send(self, method, path, content, headers):
        # Links in responses already contain the base URL of the API.
        path = path.removeprefix(self.url).removeprefix("/api/v2")
        url = f"{self.url}/api/v2{path}"
        try:
            with urlopen(Request(url, content, headers, method=method), timeout=TIMEOUT_S) as got:
                return Answer(got.status, got.headers, got.read())
        except HTTPError as refused:
            with refused:
                return Answer(refused.code, refused.headers, refused.read())

    def _read(self):
        try:
            with open(self.token_file) as file:
                return json.load(file)
        except (TypeError, OSError, ValueError):
            return None

    def _write(self):
        if self.token_file is None:
            return
        # Written atomically, and readable by this account only.
        partial = f"{self.token_file}.{os.getpid()}"
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self.kept, file)
        os.replace(partial, self.token_file)


def identifier(system, value):
    """An identifier, encoded for a URL path."""
    return quote(f"{system}|{value}", safe="")
