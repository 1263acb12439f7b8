package httpagent_test

import (
	"fmt"

	"github.com/tailrace/tailrace/agents/httpagent"
	"github.com/tailrace/tailrace/workers"
)

func ExampleNew() {
	agent, err := httpagent.New(httpagent.Config{
		URL: "https://app.internal/api/chat", Dialect: httpagent.AISDK,
		Headers: map[string]string{"Authorization": "Bearer token"}, OnCrash: httpagent.Restart,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := workers.Config{Agents: map[string]workers.Agent{"support": agent}}
	fmt.Println(len(cfg.Agents), "agent")

	_, err = httpagent.New(httpagent.Config{URL: "app.internal"})
	fmt.Println(err)
	// Output:
	// 1 agent
	// http agent: URL is invalid, want an http or https URL
}
