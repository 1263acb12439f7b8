package jsreader

import (
	"testing"

	"github.com/nats-io/nats.go"
)

func TestParseDelivery(t *testing.T) {
	want := delivery{count: 2, seq: 30, consumed: 40, stored: 1_700_000_000_000_000_001, pending: 5}
	for _, reply := range []string{
		"$JS.ACK.S.c.2.30.40.1700000000000000001.5",
		"$JS.ACK.hub.ACCHASH.S.c.2.30.40.1700000000000000001.5",
		"$JS.ACK._.ACCHASH.S.c.2.30.40.1700000000000000001.5.random",
	} {
		if got, ok := parseDelivery(reply); !ok || got != want {
			t.Errorf("%s: %+v, %v; want %+v", reply, got, ok, want)
		}
	}
	for _, reply := range []string{
		"", "$JS.ACK", "$JS.ACK.", "_INBOX.x", "$JS.ACK.S.c.2.30.40.5", "$JS.ACK.a.S.c.2.30.40.1.5",
		"$JS.ACK.S.c.2.x.40.1.5", "$JS.ACK.S.c.2..40.1.5", "$JS.ACK.S.c.2.-1.40.1.5", "$JS.ACK.S.c.2.99999999999999999999.40.1.5",
	} {
		if got, ok := parseDelivery(reply); ok {
			t.Errorf("%q: %+v, want refusal", reply, got)
		}
	}
}

// This parser and that of the library agree on what both accept.
func FuzzParseDelivery(f *testing.F) {
	f.Add("$JS.ACK.S.c.2.30.40.1700000000000000001.5")
	f.Add("$JS.ACK._.ACCHASH.S.c.2.30.40.1700000000000000001.5.random")
	f.Add("$JS.ACK.a.b.S.c.1.2.3.4.5.6.7.8")
	f.Add("$JS.ACK.......")
	f.Fuzz(func(t *testing.T, reply string) {
		d, ok := parseDelivery(reply)
		if !ok {
			return
		}
		parsed, err := (&nats.Msg{Reply: reply, Sub: &nats.Subscription{}}).Metadata()
		if err != nil {
			t.Fatalf("%q: the library refuses it: %v", reply, err)
		}
		if parsed.Sequence.Stream != d.seq || parsed.Sequence.Consumer != d.consumed || parsed.NumPending != d.pending || parsed.NumDelivered != d.count {
			t.Errorf("%q: %+v, the library says %+v", reply, d, parsed)
		}
	})
}
