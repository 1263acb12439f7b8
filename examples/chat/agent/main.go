// Command agent answers chats without a model: a keyword in the message selects the answer. It is an example
// of an agent, and the backend of the example app.
//
//	go run ./examples/chat/agent
//
//	tell   a long answer in two steps
//	where  a tool that the browser runs
//	delete a tool that a user must approve
//	fail   an answer that fails in the middle
//
// Any other message is repeated.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/workers"
)

func main() {
	url := flag.String("nats", cmp.Or(os.Getenv("TAILRACE_NATS_URL"), "nats://127.0.0.1:4422"), "NATS server, by default that of TAILRACE_NATS_URL")
	name := flag.String("name", "assistant", "agent type that is served")
	pace := flag.Duration("pace", 40*time.Millisecond, "pause before each word")
	lease := flag.Duration("lease", 5*time.Second, "silence after which another worker takes a run over")
	hold := flag.String("hold", "", "directory; an answer stops in the middle until a file is there that is named after its chat")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, *url, *lease, *name, script{pace: *pace, hold: *hold})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, url string, lease time.Duration, name string, s script) error {
	opts := []nats.Option{nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort()}
	// The variable of `tailrace worker`, for a server with the permissions that `tailrace nats-auth print --role worker` prints.
	if seed := os.Getenv("TAILRACE_NATS_NKEY"); seed != "" {
		user, err := nats.NkeyOptionFromSeed(seed)
		if err != nil {
			return err
		}
		opts = append(opts, user, nats.CustomInboxPrefix("_INBOX_worker"))
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	w, err := workers.New(js, workers.Config{
		Agents: map[string]workers.Agent{name: s},
		Lease:  lease,
		Log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
