package chat

import "context"

// ahead is a log that is being followed while the command is asked for whose answer
// it will bring. A nil one is none.
type ahead struct {
	cancel    context.CancelFunc
	following chan followed
}

type followed struct {
	tail Tail
	err  error
}

// followAhead begins to follow the log behind a view while a plan is carried out, if
// that is the command which opens a turn. Who has it takes or drops it.
func (s *Service) followAhead(ctx context.Context, plan Plan, v View) *ahead {
	if !plan.executes() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Attach)
	a := &ahead{cancel: cancel, following: make(chan followed, 1)}
	go func() {
		tail, err := s.cfg.Live.Follow(ctx, v.Session, v.Position)
		a.following <- followed{tail, err}
	}()
	return a
}

// take waits for the Tail, or for ctx to end.
func (a *ahead) take(ctx context.Context) (Tail, error) {
	select {
	case f := <-a.following:
		a.cancel()
		return f.tail, f.err
	case <-ctx.Done():
		a.drop()
		return nil, context.Cause(ctx)
	}
}

// drop is for who does not need it.
func (a *ahead) drop() {
	if a == nil {
		return
	}
	a.cancel()
	if f := <-a.following; f.err == nil {
		f.tail.Close()
	}
}
