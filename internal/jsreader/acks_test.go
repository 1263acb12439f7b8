package jsreader

import (
	"testing"

	"pgregory.net/rapid"
)

// However deliveries, repetitions, acknowledgements and restarts are mixed, the position never passes a message that was not acknowledged, and reaches
// every message before which all are; and a delivery has to be handled exactly if it was not acknowledged.
func TestAckTracker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr ackTracker
		var stream []uint64 // what the consumer delivers, in order
		for seq := uint64(1); len(stream) < 20; seq += uint64(rapid.IntRange(1, 3).Draw(t, "step")) {
			stream = append(stream, seq)
		}
		acked := map[uint64]bool{}
		delivered := map[uint64]bool{}
		deliver := func(seq uint64) {
			delivered[seq] = true
			if got := tr.deliver(seq); got == acked[seq] {
				t.Fatalf("delivery of %d to be handled: %v, acknowledged: %v", seq, got, acked[seq])
			}
		}
		next := 0
		for range rapid.IntRange(1, 80).Draw(t, "operations") {
			switch rapid.IntRange(0, 5).Draw(t, "operation") {
			case 0, 1:
				if next < len(stream) {
					deliver(stream[next])
					next++
				}
			case 2, 3:
				seq := stream[rapid.IntRange(0, len(stream)-1).Draw(t, "acked")]
				tr.acknowledge(seq)
				acked[seq] = acked[seq] || delivered[seq]
			case 4:
				if next > 0 { // repeated after AckWait
					deliver(stream[rapid.IntRange(0, next-1).Draw(t, "repeated")])
				}
			case 5: // the server begins after its ack floor, which may be lower: acknowledgements were lost
				tr.restart(true)
				ackFloor := rapid.Uint64Range(0, tr.acknowledged()).Draw(t, "ack floor of the server")
				for next = 0; next < len(stream) && stream[next] <= ackFloor; next++ {
				}
			}
			want := uint64(0)
			for _, seq := range stream {
				if !acked[seq] {
					break
				}
				want = seq
			}
			if got := tr.acknowledged(); got != want {
				t.Fatalf("acknowledged up to %d, want %d", got, want)
			}
		}
	})
}

func TestAckTrackerFollowsTheServer(t *testing.T) {
	var tr ackTracker
	for seq := uint64(1); seq <= 5; seq++ {
		tr.deliver(seq)
	}
	tr.acknowledge(4)
	tr.raise(3) // another client has acknowledged these
	if got := tr.acknowledged(); got != 4 {
		t.Errorf("acknowledged up to %d, want 4", got)
	}
	tr.raise(2)
	tr.acknowledge(5)
	if got := tr.acknowledged(); got != 5 {
		t.Errorf("acknowledged up to %d, want 5", got)
	}
	tr.restart(false)
	tr.deliver(8) // 6 and 7 come later, because the server could not be reset
	tr.acknowledge(8)
	if got := tr.acknowledged(); got != 5 {
		t.Errorf("acknowledged up to %d without a reset, want 5", got)
	}
}

// One delivery that is not acknowledged does not make the tracker keep the later ones.
func TestAckTrackerKeepsOnlyWhatIsOutstanding(t *testing.T) {
	var tr ackTracker
	for seq := uint64(1); seq <= 100_000; seq++ {
		tr.deliver(seq)
		if seq != 7 {
			tr.acknowledge(seq)
		}
		if n := cap(tr.tracked); n > 16 {
			t.Fatalf("capacity of %d deliveries after %d", n, seq)
		}
	}
	if got := tr.acknowledged(); got != 6 {
		t.Errorf("acknowledged up to %d, want 6", got)
	}
	tr.acknowledge(7)
	if got := tr.acknowledged(); got != 100_000 {
		t.Errorf("acknowledged up to %d, want 100000", got)
	}
}

// Acknowledgements of the newest deliveries first, as by sessions that are saved one after another, cost the same for each delivery.
func BenchmarkAckTracker(b *testing.B) {
	var tr ackTracker
	const inFlight = 20_000
	for first := uint64(1); b.Loop(); first += inFlight {
		for seq := first; seq < first+inFlight; seq++ {
			tr.deliver(seq)
		}
		for seq := first + inFlight - 1; seq >= first; seq-- {
			tr.acknowledge(seq)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/inFlight, "ns/delivery")
}
