package chat

import (
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }
