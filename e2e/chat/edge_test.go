//go:build e2e

package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/hublog"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/chat"
	"github.com/tailrace/tailrace/sseedge/hub"
)

const edgeVariable = "TAILRACE_CHAT_EDGE"

// runEdge is the main function of an edge: chats on an address, over the server
// that TAILRACE_NATS_URL names.
func runEdge(listen string) int {
	if err := serveEdge(listen, os.Getenv("TAILRACE_NATS_URL")); err != nil {
		fmt.Fprintln(os.Stderr, "edge:", err)
		return 1
	}
	return 0
}

func serveEdge(listen, url string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	reader, err := consumers.New(nc, js, consumers.Config{Log: log})
	if err != nil {
		return err
	}
	h, err := hub.New(hublog.Log{Reader: reader}, hublog.Feed{Reader: reader}, hub.Config{Encode: chat.Encode, Log: log})
	if err != nil {
		return err
	}
	store, err1 := kvstore.New(js, kvstore.Config{})
	queue, err2 := commands.New(js, commands.Config{})
	box, err3 := inbox.New(js, inbox.Config{})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	service, err := chat.New(chat.Config{
		Snapshots: projector.NewReader(store, natssource.Log{Reader: reader}), Commands: queue, Inbox: box, Live: chat.Hub{Hub: h},
		AgentTypes: []string{"assistant"}, Log: log,
		Dialect: aisdk.Options{ClientTool: func(name string) bool { return strings.HasPrefix(name, "page_") }},
	})
	if err != nil {
		return err
	}
	go func() { _ = h.Run(context.Background()) }()
	mux := http.NewServeMux()
	mux.Handle("/api/", service)
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	server := sseedge.NewServer(sseedge.ServerConfig{Log: log}, mux)
	server.Addr = listen
	return server.ListenAndServe()
}
