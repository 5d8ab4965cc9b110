"""Who we are to Amazon MSK where it knows clients by IAM: librdkafka shows it a token that the machine's role signs.

Spark's client asks Amazon's own class instead, see ``domain.kafka.kafka_options``. The form of a token is that of
https://github.com/aws/aws-msk-iam-sasl-signer-python.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from rivermouth.errors import KafkaClientUnable, MskSignerMissing, TokenNotMade, first_line

_REGION: Final = re.compile(r"\.([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com")
_FROM_ENVIRONMENT: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


class TokenSource:
    """What librdkafka calls for a token, each time of credentials as they are then.

    Args:
        bootstrap_servers: The cluster's; MSK's names hold their region, for others the environment says it.
        login: The options of IAMLoginModule: none for the machine's role and Amazon's other usual places,
            ``awsProfileName``, or ``awsRoleArn`` with ``awsRoleSessionName``.

    Raises:
        KafkaClientUnable: No region is known.
        MskSignerMissing: Amazon's library is not installed.

    Attributes:
        failure: Why the last token was not made; None if it was.
    """

    def __init__(self, bootstrap_servers: str, login: Mapping[str, str]) -> None:
        self.failure: str | None = None
        self._region = _region(bootstrap_servers)
        self._login = login
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - of an extra
        except ImportError as error:
            raise MskSignerMissing from error
        self._provider = MSKAuthTokenProvider

    def __call__(self, _config: str) -> tuple[str, float]:
        """The token, and when it ends, in seconds since 1970."""
        self.failure = None
        try:
            token, ends_ms = self._made()
        except AttributeError:  # of a signer that was given none to sign with
            self.failure = "there are no credentials in the environment, in a profile or of this machine"
            raise
        except Exception as error:  # librdkafka would keep what it says to itself
            self.failure = first_line(error)
            raise
        return token, ends_ms / 1000

    def check(self) -> None:
        """Makes a token and forgets it.

        Raises:
            TokenNotMade: There are no credentials, or the service that has them does not answer.
        """
        try:
            self("")
        except Exception as error:
            raise TokenNotMade(detail=self.failure) from error

    def _made(self) -> tuple[str, int]:
        login, provider = self._login, self._provider
        made: tuple[str, int]
        if "awsProfileName" in login:
            made = provider.generate_auth_token_from_profile(self._region, login["awsProfileName"])
        elif "awsRoleArn" in login:
            session = login.get("awsRoleSessionName", "rivermouth")
            made = provider.generate_auth_token_from_role_arn(self._region, login["awsRoleArn"], session)
        else:
            made = provider.generate_auth_token(self._region)
        return made


def _region(bootstrap_servers: str) -> str:
    named = _REGION.search(bootstrap_servers)
    if named is not None:
        return named[1]
    for name in _FROM_ENVIRONMENT:
        if os.environ.get(name):
            return os.environ[name]
    raise KafkaClientUnable(
        option="sasl.mechanism",
        reason="the address of the brokers does not tell their region, nor does AWS_REGION",
        fix="export AWS_REGION=eu-central-1",
    )
