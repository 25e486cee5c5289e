// Sends one push as an application server would: the subscription and the options come as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	webpush "github.com/SherClockHolmes/webpush-go"
)

type push struct {
	Subscription webpush.Subscription
	Text         string
	TTL          int
	Topic        string
	Urgency      webpush.Urgency
	PublicKey    string
	PrivateKey   string
}

func main() {
	var wanted push
	if err := json.NewDecoder(os.Stdin).Decode(&wanted); err != nil {
		panic(err)
	}
	response, err := webpush.SendNotification([]byte(wanted.Text), &wanted.Subscription, &webpush.Options{
		Subscriber:      "admin@example.com",
		TTL:             wanted.TTL,
		Topic:           wanted.Topic,
		Urgency:         wanted.Urgency,
		VAPIDPublicKey:  wanted.PublicKey,
		VAPIDPrivateKey: wanted.PrivateKey,
	})
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	fmt.Println(response.StatusCode)
}
