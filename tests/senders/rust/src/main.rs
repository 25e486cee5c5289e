// Sends one push as an application server would: the subscription and the options come as JSON.
use serde::Deserialize;
use web_push::{
    ContentEncoding, IsahcWebPushClient, SubscriptionInfo, Urgency, VapidSignatureBuilder,
    WebPushClient, WebPushError::*, WebPushMessageBuilder,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Push {
    subscription: SubscriptionInfo,
    text: String,
    ttl: u32,
    topic: Option<String>,
    urgency: Option<String>,
    private_key: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let wanted: Push = serde_json::from_reader(std::io::stdin()).unwrap();
    let mut builder = WebPushMessageBuilder::new(&wanted.subscription);
    builder.set_payload(ContentEncoding::Aes128Gcm, wanted.text.as_bytes());
    builder.set_ttl(wanted.ttl);
    if let Some(topic) = wanted.topic {
        builder.set_topic(topic);
    }
    match wanted.urgency.as_deref() {
        Some("very-low") => builder.set_urgency(Urgency::VeryLow),
        Some("low") => builder.set_urgency(Urgency::Low),
        Some("normal") => builder.set_urgency(Urgency::Normal),
        Some("high") => builder.set_urgency(Urgency::High),
        _ => (),
    }
    if let Some(key) = wanted.private_key {
        let mut signer = VapidSignatureBuilder::from_base64(&key, &wanted.subscription).unwrap();
        // By itself it leaves out the port.
        let origin: Vec<&str> = wanted.subscription.endpoint.splitn(4, '/').take(3).collect();
        signer.add_claim("aud", origin.join("/"));
        builder.set_vapid_signature(signer.build().unwrap());
    }
    let client = IsahcWebPushClient::new().unwrap();
    match client.send(builder.build().unwrap()).await {
        Ok(()) => println!("201"),
        Err(
            Unauthorized(info) | BadRequest(info) | EndpointNotValid(info) | Other(info)
            | ServerError { info, .. },
        ) => println!("{}", info.code),
        Err(error) => println!("{error:?}"),
    }
}
