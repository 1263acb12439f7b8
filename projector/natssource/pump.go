package natssource

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// pump makes batches of what an iterator yields: all that is there, and never
// waiting for a batch to be full. It owns one goroutine, which ends with stop or
// with the iterator's first error.
type pump struct {
	messages chan jetstream.Msg
	err      error // readable once messages is closed
	cancel   context.CancelFunc
	done     chan struct{}
}

func newPump(from jetstream.MessagesContext, most int) *pump {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pump{messages: make(chan jetstream.Msg, most), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer close(p.messages)
		for {
			m, err := from.Next(jetstream.NextContext(ctx))
			if err != nil {
				p.err = err
				return
			}
			select {
			case p.messages <- m:
			case <-ctx.Done():
				p.err = ctx.Err()
				return
			}
		}
	}()
	return p
}

func (p *pump) stop() {
	p.cancel()
	<-p.done
}

// batch waits for a message and takes those that are behind it.
func (p *pump) batch(ctx context.Context, most int) ([]jetstream.Msg, error) {
	var batch []jetstream.Msg
	select {
	case m, ok := <-p.messages:
		if !ok {
			return nil, p.err
		}
		batch = append(batch, m)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for len(batch) < most {
		select {
		case m, ok := <-p.messages:
			if !ok {
				return batch, nil
			}
			batch = append(batch, m)
		default:
			return batch, nil
		}
	}
	return batch, nil
}
