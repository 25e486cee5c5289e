"""The options of the original autopush: their environment variables, and which are obsolete.

An option of this list that becomes a row of the table is read from its variable from then on.
"""

from collections.abc import Mapping
from typing import Final

_OBSOLETE: Final = """
    _no_sslcontext_cache apns_cert_file apns_enabled apns_key_file apns_sandbox external_router
    fcm_enabled fcm_project_id fcm_service_cred_path gcm_enabled max_message_size proxy_protocol
    s3_bucket senderid_expry use_cryptography
"""
OBSOLETE: Final = frozenset(_OBSOLETE.split())
"""Options that have no meaning any more; in a file they are accepted."""

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

VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (name.upper(),) for name in _NAMES.split()},
    "aws_ddb_endpoint": ("AWS_LOCAL_DYNAMODB",),
    "firehose_stream_name": ("STREAM_NAME",),
    "hostname": ("LOCAL_HOSTNAME",),
    "no_cors": ("NO_CORS", "ALLOW_CORS"),
}
"""Option → its environment variables.

HOST, PORT, ENV and DEBUG mean something to other programs too: they are left to them.
"""


def reason_for_absence(name: str) -> str | None:
    """Why a name that is no option here was one in the original; None when it was not."""
    if name in OBSOLETE:
        return "is obsolete and does nothing"
    if name in VARIABLES:
        return "is an option of the original that this version does not have"
    return None
