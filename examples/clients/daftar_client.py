"""A daftar client that uses only the standard library (Python 3.9 and later)."""

import base64
import json
import os
import ssl
import threading
import time
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

# A token is renewed five minutes before its end; one valid for less than 25 minutes, after four fifths of its lifetime.
MARGIN_S = 300
TIMEOUT_S = 60


class Response:
    def __init__(self, status, headers, content):
        self.status, self.headers, self.content = status, headers, content

    def json(self):
        return json.loads(self.content)


class Daftar:
    """Create one per program: its threads share a token; with `token_file`, all programs of a machine do.
    `ca_file` has the certificates of a private certificate authority, in PEM."""

    def __init__(self, url, client_id, client_secret, token_file=None, ca_file=None, clock=time.time, sleep=time.sleep):
        self.tls = ssl.create_default_context(cafile=ca_file)
        self.url, self.token_file, self.clock, self.sleep = url.rstrip("/"), token_file, clock, sleep
        pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
        self.basic = "Basic " + base64.b64encode(pair.encode()).decode()
        self.cached, self.lock = None, threading.Lock()

    def call(self, method, path, body=None, headers=None):
        """One call, such as `call("GET", "/Individual?_count=5")`. Does not raise on an error response: check `status`."""
        content = None if body is None else json.dumps(body).encode()
        more = dict(headers or {}, **({} if body is None else {"Content-Type": "application/json"}))
        token = self.token()
        response = self._send_with_retries(method, path, content, dict(more, Authorization=f"Bearer {token}"))
        if response.status == 401:
            # A 401 is returned before any processing, so even a POST can be retried. Once: a second 401 has another cause.
            token = self.token(refused=token)
            response = self._send_with_retries(method, path, content, dict(more, Authorization=f"Bearer {token}"))
        return response

    def token(self, refused=None):
        """Returns a token that stays valid for a while and is not the rejected one."""
        with self.lock:
            cached = self.cached or self._read()
            if cached and cached["access_token"] != refused and self.clock() < cached["renew_at"]:
                self.cached = cached
                return cached["access_token"]
            requested_at = self.clock()
            headers = {"Authorization": self.basic, "Content-Type": "application/x-www-form-urlencoded"}
            response = self._send_with_retries("POST", "/oauth/token", b"grant_type=client_credentials", headers)
            if response.status != 200:
                raise RuntimeError(f"no token: {response.status} {response.content.decode(errors='replace')}")
            given = response.json()
            lifetime = given["expires_in"]
            renew_at = requested_at + lifetime - min(MARGIN_S, lifetime / 5)
            self.cached = {"access_token": given["access_token"], "renew_at": renew_at}
            self._write()
            return given["access_token"]

    def _send_with_retries(self, method, path, content, headers):
        """Sends a request, and waits as long as a 429 or a 503 requires."""
        for waits_left in (4, 3, 2, 1, 0):
            response = self._send(method, path, content, headers)
            wait_s = response.headers.get("Retry-After")
            if response.status not in (429, 503) or wait_s is None or int(wait_s) > TIMEOUT_S or not waits_left:
                return response
            self.sleep(int(wait_s))

    def _send(self, method, path, content, headers):
        # Links in responses already contain the base URL of the API.
        path = path.removeprefix(self.url).removeprefix("/api/v2")
        url = f"{self.url}/api/v2{path}"
        try:
            with urlopen(Request(url, content, headers, method=method), timeout=TIMEOUT_S, context=self.tls) as got:
                return Response(got.status, got.headers, got.read())
        except HTTPError as refused:
            with refused:
                return Response(refused.code, refused.headers, refused.read())

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
            json.dump(self.cached, file)
        os.replace(partial, self.token_file)


def identifier(system, value):
    """An identifier, encoded for a URL path."""
    return quote(f"{system}|{value}", safe="")
