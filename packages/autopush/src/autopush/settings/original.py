"""The options of the original autopush: their environment variables, and which are obsolete.

An option of this list that becomes a row of the table is read from its variable from then on.
"""

from collections.abc import Mapping
from typing import Final

OBSOLETE: Final[Mapping[str, str]] = {
    "_no_sslcontext_cache": "",
    "apns_cert_file": "apns_creds",
    "apns_enabled": "apns_creds",
    "apns_key_file": "apns_creds",
    "apns_sandbox": "apns_creds",
    "external_router": "",
    "fcm_enabled": "fcm_creds",
    "fcm_project_id": "fcm_creds",
    "fcm_service_cred_path": "fcm_creds",
    "gcm_enabled": "senderid_list",
    "max_message_size": "max_data",
    "proxy_protocol": "proxy_protocol_port",
    "s3_bucket": "",
    "senderid_expry": "",
    "use_cryptography": "",
}
"""Options that have no meaning any more, and those in their place. In a file they are accepted."""

NEVER_OPTIONS: Final[Mapping[str, str]] = {
    "gcm_apikey": 'the key is written as senderid_list = {"SENDER ID": {"auth": "KEY"}}',
    "fcm_apikey": "the key is written as fcm_auth = KEY, with fcm_senderid = SENDER ID",
}
"""Names that only the documentation of the original has, and what to write instead."""

_NAMES: Final = """
    _no_sslcontext_cache adm_creds apns_creds auth_key auto_ping_interval auto_ping_timeout
    client_certs close_handshake_timeout connection_timeout crypto_key datadog_api_key
    datadog_app_key datadog_flush_interval disable_simplepush endpoint_hostname endpoint_port
    endpoint_scheme fcm_collapsekey fcm_creds fcm_dryrun fcm_enabled fcm_ttl fcm_version
    gcm_collapsekey gcm_dryrun gcm_enabled gcm_endpoint gcm_ttl hello_timeout human_logs key_hash
    log_level log_output max_connections max_data megaphone_api_token megaphone_api_url
    megaphone_poll_interval memusage_port message_read_throughput message_tablename
    message_write_throughput msg_limit no_aws no_table_rotation proxy_protocol_port resolve_hostname
    router_hostname router_port router_read_throughput router_ssl_cert router_ssl_key
    router_tablename router_write_throughput senderid_list sentry_dsn ssl_cert ssl_dh_param ssl_key
    statsd_host statsd_port storage_read_throughput storage_tablename storage_write_throughput
    sts_max_age use_cryptography wake_pem wake_server wake_timeout
"""

_SAME_NAMES: Final = """
    auto_ping_interval auto_ping_timeout close_handshake_timeout crypto_key endpoint_hostname
    endpoint_port endpoint_scheme endpoint_url host hostname human_logs max_notification_ttl
    megaphone_api_token megaphone_api_url megaphone_poll_interval msg_limit open_handshake_timeout
    port resolve_hostname router_hostname router_port statsd_host statsd_port
"""
"""Options that autopush-rs has under the name of ours."""

VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (name.upper(),) for name in _NAMES.split()},
    "aws_ddb_endpoint": ("AWS_LOCAL_DYNAMODB",),
    "firehose_stream_name": ("STREAM_NAME",),
    "hostname": ("LOCAL_HOSTNAME",),
    "no_cors": ("NO_CORS", "ALLOW_CORS"),
}
"""Option → its environment variables.

HOST and ENV mean something to other programs too and are not read; PORT and DEBUG only by the
daemons that the original has.
"""

SUCCESSOR: Final[Mapping[str, str]] = {
    "actix_max_connections": "max_connections",
    "actix_workers": "workers",
    "auth_keys": "auth_key",
    "connection_timeout_millis": "connection_timeout (in seconds)",
    "crypto_keys": "crypto_key",
    "db_dsn": "store",
    "dsn": "store",
    "log_chan_size": "log_queue",
    "max_data_bytes": "max_data",
    "request_timeout_millis": "request_timeout (in seconds)",
    **{name: name for name in _SAME_NAMES.split()},
}
"""Options of autopush-rs → those that mean the same here. Its variables begin with AUTOCONNECT__
or AUTOEND__.
"""


def reason_for_absence(name: str) -> str | None:
    """Why a name that is no option here stands in a file of the original; None when it does not."""
    if (instead := OBSOLETE.get(name)) is not None:
        return "is obsolete and does nothing" + (f"; see {instead}" if instead else "")
    if (instead := NEVER_OPTIONS.get(name)) is not None:
        return f"is no option: {instead}"
    return None
