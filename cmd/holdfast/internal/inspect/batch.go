package inspect

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
)

// patience is for how long the answer to a batch is waited for.
const patience = 10 * time.Second

// A batch is commands that are sent in one go, each with what its answer is for.
type batch struct {
	commands rueidis.Commands
	asks     []ask
}

type ask struct {
	about *find
	use   func(rueidis.RedisResult) error
}

// add has the answer to a command, which may be nil, used for a find. If the answer is that the key
// is of another kind by now, or may not be read, the find is dropped.
func (b *batch) add(about *find, command rueidis.Completed, use func(rueidis.RedisResult) error) {
	b.commands = append(b.commands, command)
	b.asks = append(b.asks, ask{about, use})
}

// number has an answer that is a number written down; nothing is 0.
func (b *batch) number(about *find, command rueidis.Completed, to *int64) {
	b.add(about, command, func(answer rueidis.RedisResult) (err error) {
		*to, err = answer.AsInt64()
		return err
	})
}

// run sends what has been added and forgets it.
func (b *batch) run(ctx context.Context, client rueidis.Client) error {
	if len(b.commands) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers := client.DoMulti(ctx, b.commands...)
	asks := b.asks
	*b = batch{}
	for i, answer := range answers {
		err := asks[i].use(answer)
		switch {
		case err == nil || rueidis.IsRedisNil(err):
		case deniedKey(err):
			asks[i].about.drop, asks[i].about.denied = true, err
		case changed(err):
			asks[i].about.drop = true
		default:
			return err
		}
	}
	return nil
}

// changed reports whether the error says that the key is not what it was.
func changed(err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(said.Error(), "WRONGTYPE")
}

// serverNow is the server's clock in ms, in a cluster that of any node that answers.
func serverNow(ctx context.Context, client rueidis.Client) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var answer rueidis.RedisMessage
	var err error
	if client.Mode() == rueidis.ClientModeCluster {
		answer, err = cluster.Ask(ctx, client, func(f func()) { go f() }, "TIME")
	} else {
		answer, err = client.Do(ctx, client.B().Time().Build()).ToMessage()
	}
	if err != nil {
		return 0, err
	}
	parts, err := answer.AsIntSlice()
	if err != nil {
		return 0, err
	}
	return parts[0]*1000 + parts[1]/1000, nil
}
