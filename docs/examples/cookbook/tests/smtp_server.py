"""smtp_server.py CERTIFICATE KEY PORT: a mail server that writes its mails to standard output.

It requires STARTTLS, and the user "me" with the password "secret". It needs Debian's python3-aiosmtpd.
"""
import json, ssl, sys, time
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult


class Handler:
    async def handle_DATA(self, server, session, envelope):
        mail = {"from": envelope.mail_from, "to": envelope.rcpt_tos, "tls": session.ssl is not None}
        print(json.dumps(mail | {"text": envelope.content.decode()}), flush=True)
        return "250 taken"


def authenticate(server, session, envelope, mechanism, data):
    return AuthResult(success=(data.login, data.password) == (b"me", b"secret"), handled=False)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
controller = Controller(Handler(), hostname="127.0.0.1", port=int(sys.argv[3]), tls_context=context,
                        require_starttls=True, authenticator=authenticate, auth_required=True)
controller.start()
time.sleep(1000)
