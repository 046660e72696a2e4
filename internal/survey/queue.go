package survey

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// mostWaiters is how many places of a queue are looked at.
const mostWaiters = 1000

// IsLock reports whether a hash with these fields and values is a lock. One other field, and it is somebody's
// data.
func IsLock(flat []string) (held bool) {
	for i := 0; i+1 < len(flat); i += 2 {
		field, value := flat[i], flat[i+1]
		if field == wire.ModeField && (value == wire.ModeRead || value == wire.ModeWrite) {
			continue
		}
		if _, held = wire.ParseHold(field, value); !held {
			return false
		}
	}
	return held
}

// A Queue is the queue of a fair lock, on the node that has its keys.
type Queue struct {
	Client rueidis.Client   // of the whole deployment
	Node   rueidis.Client   // that has the keys
	Heard  []rueidis.Client // the nodes on which somebody may listen to plain messages
	Now    time.Time        // by the node's clock
	Name   string
}

// Gone are the owners in the queue that are not heard of any more: ours by the time until which they are alive,
// Redisson's by theirs or because nobody listens to the message that would tell them. next is the first waiter that is
// not gone. With an error, gone has the waiters that are known to be gone nevertheless.
func (q *Queue) Gone(ctx context.Context) (gone []string, next string, err error) {
	list := q.Node.B().Lrange().Key(wire.FairQueue(q.Name)).Start(0).Stop(mostWaiters - 1).Build()
	queue, err := q.Node.Do(ctx, list).AsStrSlice()
	due, err1 := q.scores(ctx, wire.FairDue(q.Name))
	alive, err2 := q.scores(ctx, wire.FairAlive(q.Name))
	if err := cmp.Or(err, err1, err2); err != nil {
		return nil, "", err
	}
	now := float64(q.Now.UnixMilli())
	var doubtful []string
	for _, waiter := range queue {
		until, ours := alive[waiter]
		if !ours {
			until = due[waiter] // none: the next call takes it out
		}
		switch {
		case until <= now:
			gone = append(gone, waiter)
		case !ours:
			doubtful = append(doubtful, waiter)
		}
	}
	silent, err := q.silent(ctx, doubtful)
	gone = append(gone, silent...)
	if i := slices.IndexFunc(queue, func(waiter string) bool { return !slices.Contains(gone, waiter) }); i >= 0 {
		next = queue[i]
	}
	return gone, next, err
}

// scores are the members of a sorted set with theirs.
func (q *Queue) scores(ctx context.Context, key string) (map[string]float64, error) {
	last := strconv.Itoa(mostWaiters - 1)
	list, err := q.Node.Do(ctx, q.Node.B().Zrange().Key(key).Min("0").Max(last).Withscores().Build()).AsZScores()
	found := make(map[string]float64, len(list))
	for _, member := range list {
		found[member.Member] = member.Score
	}
	return found, err
}

// silent returns the waiters that do not listen to the message that would tell them. It asks twice, with some time
// between, because a waiter that subscribes again is away for a moment.
func (q *Queue) silent(ctx context.Context, waiters []string) (silent []string, err error) {
	const between = 300 * time.Millisecond
	listens := func(waiter string) bool {
		heard, problem := q.listened(ctx, wire.FairChannel(q.Name)+waiter)
		if refusal.Denied(problem) {
			err = cmp.Or(err, problem)
		}
		return heard
	}
	if waiters = slices.DeleteFunc(waiters, listens); len(waiters) == 0 {
		return nil, err
	}
	if !pause(ctx, between) {
		return nil, err
	}
	return slices.DeleteFunc(waiters, listens), err
}

// listened reports whether somebody listens to a channel, or it cannot be known.
func (q *Queue) listened(ctx context.Context, channel string) (bool, error) {
	for _, node := range q.Heard {
		answer, err := node.Do(ctx, node.B().PubsubNumsub().Channel(channel).Build()).AsIntMap()
		if err != nil || answer[channel] > 0 {
			return true, err
		}
	}
	if q.Client.Mode() != rueidis.ClientModeCluster {
		return false, nil
	}
	answer, err := q.Node.Do(ctx, q.Node.B().PubsubShardnumsub().Channel(channel).Build()).AsIntMap()
	if refusal.Is(err) && !refusal.Denied(err) {
		return false, nil // the server knows no sharded messages
	}
	return err != nil || answer[channel] > 0, err
}
