// Package webhook sends what happens in sessions to an HTTP server of the user, as webhooks.
//
// # Requests
//
// A webhook is a POST of one CloudEvents 1.0 event as JSON, with Content-Type application/cloudevents+json, and with the headers of Standard Webhooks: webhook-id,
// webhook-timestamp and webhook-signature, which libraries of standardwebhooks.com verify. The types are those of the constants of this package. The data has ids,
// state, code, tokens and cost, and only with content in the view also input, output and message.
//
// Any status from 200 to 299 accepts a webhook. After 408, 429, 500 to 599, a redirect to another host, or no answer it is sent again, after 1 s to 5 min and
// not before Retry-After, until export.Config.GiveUp. After another status from 400 to 499 it is sent again twice. 410 ends all: every webhook is a dead letter
// until the program starts again.
//
// # Guarantees
//
// At least once, see package export: a receiver stores the webhook-id and ignores one that it has. The webhooks of a session and its sub-agents come in the order
// of the log, one after the other; those of different sessions come at the same time, up to Lanes. A webhook that fails holds back those after it in its lane.
//
// # What is lost
//
// A deleted session is one webhook, SessionDeleted; those that were sent cannot be deleted. No webhook says that a cleanup removed what was sent. A dead
// letter has the place in the log and no content.
package webhook
