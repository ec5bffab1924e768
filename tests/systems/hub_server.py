"""A hub on this machine: as much of the Hugging Face protocol as putting up and fetching small files takes.

The client that talks to it is the real one.
"""

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Repositories in memory: files by repository and name."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, dict[str, bytes]] = {}
        self.address = f"http://127.0.0.1:{self.server_port}"
        Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body=b"", status=200, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(self.path.partition("?")[0])
        if path == "/api/repos/create":
            message = json.loads(body)
            name = f"{message.get('organization') or 'me'}/{message['name']}"
            self.server.files.setdefault(name, {})
            return self.answer({"url": f"{self.server.address}/{name}"})
        if path == "/api/validate-yaml":  # of the card
            return self.answer({"errors": [], "warnings": []})
        repository = "/".join(path.split("/")[3:5])
        if "/preupload/" in path:  # small enough to be sent within the commit, all of them
            asked = json.loads(body)["files"]
            return self.answer({"files": [{**f, "uploadMode": "regular", "shouldIgnore": False} for f in asked]})
        if "/commit/" in path:
            for line in body.decode().splitlines():
                message = json.loads(line)
                if message["key"] == "file":
                    content = base64.b64decode(message["value"]["content"])
                    self.server.files[repository][message["value"]["path"]] = content
            url = f"{self.server.address}/{repository}/commit/{COMMIT}"
            return self.answer({"commitUrl": url, "commitOid": COMMIT, "success": True})
        return self.answer({"error": "unknown"}, 404)

    def do_GET(self):
        path = unquote(self.path.partition("?")[0])
        parts = path.strip("/").split("/")
        repository = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
        if repository not in self.server.files:
            return self.answer({"error": "none"}, 404, X_Error_Code="RepoNotFound")
        files = self.server.files[repository]
        if parts[0] == "api" and "tree" in parts:
            return self.answer([{"type": "file", "path": n, "size": len(b), "oid": _oid(b)} for n, b in files.items()])
        if parts[0] == "api":
            siblings = [{"rfilename": name} for name in files]
            return self.answer({"id": repository, "sha": COMMIT, "siblings": siblings, "private": False})
        content = files["/".join(parts[4:])]
        return self.answer(content, ETag=f'"{_oid(content)}"', X_Repo_Commit=COMMIT)

    def do_HEAD(self):
        self.do_GET()


def _oid(content):
    return hashlib.sha1(content).hexdigest()
