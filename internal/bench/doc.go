// Package bench measures Tailrace against the raw floor: the same work with
// bare nats.go or bare net/http, in the same run, round by round in turn, on an
// embedded server of its own. Machines are shared and noisy; the ratio of two
// neighbouring rounds is what can be trusted, and its median is what is printed.
package bench
