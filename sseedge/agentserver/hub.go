package agentserver

import (
	"context"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge/hub"
)

// Hub is a Live over the hub of the edge: whoever waits for the first record of a
// session shares the reading of it with those who stream it.
type Hub struct{ Hub *hub.Hub }

// Begun is Live's.
func (h Hub) Begun(ctx context.Context, s chunk.Session) error {
	cur, err := h.Hub.Subscribe(ctx, hub.Request{Session: s, KeepOpen: true})
	if err != nil {
		return err
	}
	defer cur.Close()
	_, err = cur.Next(ctx, nil)
	return err
}
