// Package audit records who did what: one Event for each act of a user or program, and for each refused access. An Event has ids and no content: no text,
// no input of a call, no token. It does not import NATS; package jscontrol stores the events.
//
//	log := audit.New(audit.Config{Store: store})
//	go log.Run(ctx)
//	err := log.Do(ctx, audit.Event{Act: audit.Stop, Session: s, By: by}, func() error { return inbox.Stop(ctx, stop) })
//
// The methods of the nil *Log record nothing.
package audit
