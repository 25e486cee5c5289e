// Sends one push as an application server would: the subscription and the options come as JSON.
const webpush = require("web-push");

const wanted = JSON.parse(require("fs").readFileSync(0, "utf8"));
webpush
  .sendNotification(wanted.subscription, wanted.text, {
    TTL: wanted.ttl,
    ...(wanted.topic && { topic: wanted.topic }),
    ...(wanted.urgency && { urgency: wanted.urgency }),
    ...(wanted.privateKey && {
      vapidDetails: {
        subject: "mailto:admin@example.com",
        publicKey: wanted.publicKey,
        privateKey: wanted.privateKey,
      },
    }),
  })
  .then((result) => console.log(result.statusCode))
  .catch((error) => console.log(error.statusCode ?? error.stack));
