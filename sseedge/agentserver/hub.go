package agentserver

import (
	"context"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
)

// HubWaiter is a StartWaiter over the hub of the edge: requests that wait for the first record of a session share its feed with those that stream it.
type HubWaiter struct{ HubWaiter *hub.Hub }

// WaitStarted is StartWaiter's.
func (h HubWaiter) WaitStarted(ctx context.Context, s chunk.Session) error {
	cur, err := h.HubWaiter.Subscribe(ctx, hub.Request{Session: s, KeepOpen: true})
	if err != nil {
		return err
	}
	defer cur.Close()
	_, err = cur.Next(ctx, nil)
	return err
}
