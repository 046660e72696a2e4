package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// mostWaiters is how many places of a queue are looked at.
const mostWaiters = 1000

// goneWaiters looks for places in the queues of fair locks whose waiters have gone.
func goneWaiters(ctx context.Context, d *doctor, n *node) finding {
	if d.q.scan == 0 {
		return finding{}
	}
	var s sweep
	var first string // how to take one out
	pattern := strings.TrimSuffix(wire.FairQueue("{"), "{") + "*"
	err := d.walk(ctx, n, &s, "list", pattern, func(ctx context.Context, queues []string) error {
		for _, queue := range queues {
			_, names := wire.KeyOf(queue)
			name := names[0]
			gone, next, err := d.gone(ctx, n, name)
			if err := s.passed(err); err != nil {
				return err
			}
			if len(gone) == 0 {
				continue
			}
			s.add(fmt.Sprintf("%s (%d)", name, len(gone)))
			if first == "" {
				who := quoted(gone[0])
				first = fmt.Sprintf("redis-cli LREM %s 0 %s && redis-cli ZREM %s %s", quoted(queue), who, quoted(wire.FairDue(name)), who)
				if len(gone) == 1 && next != "" && !d.cluster() { // which may sleep for as long as the one in front was to live
					first += fmt.Sprintf(" && redis-cli PUBLISH %s 0", quoted(wire.FairChannel(name)+next))
				}
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return unknown("whether waiters of fair locks are gone", "+scan, and all keys,", err)
	case s.bad > 0:
		return s.told(d, warn("%s with waiters whose process is gone: %s", cli.Plural(s.bad, "fair lock"), s.list()).
			means("They keep their places until the next one asks for the lock; a dead Java waiter that is first can keep a free lock from the others for up to 5 minutes.").
			fix("Nothing, if nobody else waits. Otherwise take them out, one after the other, and run the doctor again: %s", first))
	}
	return s.told(d, okay("no fair lock has waiters whose process is gone"))
}

// gone are the owners in the queue of a fair lock that are not heard of any more: ours by the time until which
// they are alive, Redisson's by theirs or because nobody listens to the message that would tell them. next is
// the first who is not gone. Beside an error gone are those of whom it is known nevertheless.
func (d *doctor) gone(ctx context.Context, n *node, name string) (gone []string, next string, err error) {
	b := n.client.B()
	queue, err := n.client.Do(ctx, b.Lrange().Key(wire.FairQueue(name)).Start(0).Stop(mostWaiters-1).Build()).AsStrSlice()
	if err != nil {
		return nil, "", err
	}
	due, err := scores(ctx, n, wire.FairDue(name))
	if err != nil {
		return nil, "", err
	}
	alive, err := scores(ctx, n, wire.FairAlive(name))
	if err != nil {
		return nil, "", err
	}
	now := float64(time.Now().Add(n.ahead).UnixMilli())
	var doubtful []string
	for _, waiter := range queue {
		until, ours := alive[waiter]
		if !ours {
			until = due[waiter] // none: whoever comes next takes it out
		}
		switch {
		case until <= now:
			gone = append(gone, waiter)
		case !ours:
			doubtful = append(doubtful, waiter)
		}
	}
	silent, err := d.silent(ctx, n, name, doubtful)
	gone = append(gone, silent...)
	for _, waiter := range queue {
		if !slices.Contains(gone, waiter) {
			return gone, waiter, err
		}
	}
	return gone, "", err
}

// scores are the members of a sorted set with theirs.
func scores(ctx context.Context, n *node, key string) (map[string]float64, error) {
	cmd := n.client.B().Zrange().Key(key).Min("0").Max(fmt.Sprint(mostWaiters - 1)).Withscores().Build()
	list, err := n.client.Do(ctx, cmd).AsZScores()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	found := make(map[string]float64, len(list))
	for _, member := range list {
		found[member.Member] = member.Score
	}
	return found, nil
}

// silent are those of the waiters who do not listen to the message that would tell them. They are asked for twice
// with some time between, since whoever subscribes anew is away for a moment.
func (d *doctor) silent(ctx context.Context, n *node, name string, waiters []string) (silent []string, err error) {
	const between = 300 * time.Millisecond
	listens := func(waiter string) bool {
		heard, problem := d.listened(ctx, n, wire.FairChannel(name)+waiter)
		err = cmp.Or(err, problem)
		return heard
	}
	if waiters = slices.DeleteFunc(waiters, listens); len(waiters) == 0 {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, err
	case <-time.After(between):
	}
	return slices.DeleteFunc(waiters, listens), err
}

// listened reports whether somebody listens to a channel, or it cannot be known. The error is that the user
// may not ask.
func (d *doctor) listened(ctx context.Context, n *node, channel string) (bool, error) {
	for _, server := range d.nodes { // plain messages are heard on any
		if server.err != nil {
			continue
		}
		if count, err := listeners(ctx, server, "NUMSUB", channel); err != nil || count > 0 {
			return true, onlyDenied(err)
		}
	}
	if !d.cluster() {
		return false, nil
	}
	count, err := listeners(ctx, n, "SHARDNUMSUB", channel)
	return !unheard(err) && (err != nil || count > 0), onlyDenied(err)
}

func onlyDenied(err error) error {
	if denied(err) {
		return err
	}
	return nil
}

func listeners(ctx context.Context, n *node, list, channel string) (int64, error) {
	answer, err := n.do(ctx, "PUBSUB", list, channel).AsIntMap()
	return answer[channel], err
}
