package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// Two clients of one session: one reads from the beginning, one resumes.
func Example() {
	log := memlog.New()
	s := chunk.RootSession("acme", "s1")
	log.Append(s, chunk.TypeTextDelta, `"delta":"Hello"`)
	log.Append(s, chunk.TypeStreamEnd, `"streamId":"s1"`)

	h, err := hub.New(log, log, hub.Config{Encode: helix.Encode})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		if err := h.Run(ctx); err != nil {
			fmt.Println(err)
		}
	})
	for _, after := range []chunk.Seq{0, 1} {
		cur, err := h.Subscribe(ctx, hub.Request{Session: s, After: chunk.Position{Seq: after}})
		if err != nil {
			fmt.Println(err)
			return
		}
		for {
			batch, err := cur.Next(ctx, nil)
			if errors.Is(err, io.EOF) {
				break
			}
			fmt.Printf("after %d: %d bytes\n", after, len(batch.Frames))
		}
		cur.Close()
	}
	_, err = h.Subscribe(ctx, hub.Request{Session: s, After: chunk.Position{Seq: 2}})
	fmt.Println(err)
	// Output:
	// after 0: 206 bytes
	// after 1: 37 bytes
	// session ended before the position
}
