package jssnapshots

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// The response to any one write of a save with a small and a large pack is lost. A save without an error has stored all messages. A save of a session that was
// deleted meanwhile leaves none.
func TestLostResponseToAWrite(t *testing.T) {
	t.Parallel()
	for lost := int64(1); lost <= 9; lost++ {
		t.Run(fmt.Sprint("response ", lost), func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t)
			js := srv.JetStream(t)
			direct := openSmall(t, js)
			log := newLarge(t)
			log.end(t)
			snap := log.fold(t)
			proxy := natstest.StartFaultProxy(t, srv.URL)
			st, err := New(natstest.JetStream(t, proxy.URL), Config{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := st.bucketOf(t.Context(), s1); err != nil {
				t.Fatal(err)
			}
			lose := func() {
				var n atomic.Int64
				proxy.SetResponseFaults(func(answer []byte) bool {
					return strings.Contains(string(answer), `"stream":"`) && n.Add(1) == lost
				})
			}
			lose()
			_, err = st.Save(t.Context(), snap, 0)
			t.Logf("the save: %v", err)
			if _, _, loaded := direct.Load(t.Context(), s1); loaded == nil {
				if _, messages := direct.Messages(t.Context(), storetest.Trimmed(snap)); messages != nil {
					t.Errorf("a head was saved (%v) without its messages: %v", err, messages)
				}
			}

			_, r, err := direct.Load(t.Context(), s1)
			if err != nil && !errors.Is(err, projector.ErrNoSnapshot) {
				t.Fatal(err)
			}
			tombstone := fold.NewTombstone(s1, chunk.Position{Seq: 100, Ordinal: 100}, 9)
			r = mustSave(t, direct, tombstone, r)
			if _, err := direct.DeleteData(t.Context(), tombstone, r, r, true); err != nil {
				t.Fatal(err)
			}
			lose()
			_, err = st.Save(t.Context(), snap, 0)
			keys, objects := held(t, js)
			t.Logf("the late save: %v; %v %v", err, keys, objects)
			if errors.Is(err, projector.ErrConflict) && (keys["m"] != 0 || keys["o"] != 0 || len(objects) != 0) {
				t.Errorf("left by the late save: %v, %v", keys, objects)
			}
		})
	}
}
