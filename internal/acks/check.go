package acks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// patience is for how long a server is waited for.
const patience = 5 * time.Second

// Check returns why a server refuses what waiting for replicas needs. A server that does not answer may do later on,
// and so may one that is loading.
func Check(client rueidis.Client, acks *session.Acks) error {
	if acks == nil {
		return nil
	}
	what, needs := "Options.Acks", [][]string{{"WAIT", "0", "1"}}
	if acks.Disk {
		what, needs = "Options.AcksOnDisk", [][]string{{"WAITAOF", "1", "0", "1"}}
	}
	if acks.Replicas < 0 {
		needs = append(needs, []string{"INFO", "replication"})
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, command := range needs {
		_, err := cluster.Ask(ctx, client, command...)
		answer, ok := rueidis.IsRedisErr(err)
		if ok && !script.Passes(answer) && !strings.Contains(answer.Error(), "replica") {
			return fmt.Errorf("%s needs %s: %w", what, command[0], answer)
		}
	}
	return nil
}
