package chat

import "context"

// Drain rejects new streams and new messages, and closes the open streams, each after a complete event, spread over the DrainPeriod of the edge or half of the
// time until the deadline of ctx: their pages resume at the other edges, which must not get all of them at once. It returns when the last stream
// has ended, or when ctx ends. Other requests are still served.
func (s *Service) Drain(ctx context.Context) error { return s.open.Begin(ctx, s.shared.DrainPeriod) }
