package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const (
	examples   = 5  // at most this many keys are named
	mostFields = 20 // of a hash are looked at
)

// A sweep goes through the keys of a server.
type sweep struct {
	*doctor
	*node
	seen int64 // that were looked at
	bad  int64
	some []string // of the bad ones
	cut  bool     // the time was over first

	unread int64    // that the user may not read
	lacks  []string // commands that it would need for them; of the others it may not read the keys
}

func (s *sweep) add(name string) {
	s.bad++
	switch {
	case len(s.some) < examples:
		s.some = append(s.some, cli.Safe(name))
	case len(s.some) == examples:
		s.some = append(s.some, "…")
	}
}

// How a server names a command that it refuses, and how it says that what a key is, or where, has changed
// since it was listed.
var (
	theCommand = regexp.MustCompile(`'([^' ]+)' command`)
	changed    = regexp.MustCompile(`^(WRONGTYPE|MOVED|ASK) `)
)

// passed passes over a key that the user may not read, or that is another by now. It returns all other errors.
func (s *sweep) passed(err error) error {
	switch {
	case refusal.Denied(err):
		s.unread++
		if command := theCommand.FindStringSubmatch(plain(err)); command != nil {
			s.lacks = append(s.lacks, "+"+command[1])
		}
	case !refusal.Is(err) || !changed.MatchString(plain(err)):
		return err
	}
	return nil
}

// told is what a sweep found, and what it did not look at: bad if it found any, else fine.
func (s *sweep) told(err error, question string, bad, fine finding) finding {
	if err != nil {
		return unknown(question, "+scan, and all keys,", err)
	}
	f := fine
	if s.bad > 0 {
		f = bad
	}
	var meaning, fix []string
	add := func(found, means, does string) {
		f.Found += "; " + found
		meaning, fix = append(meaning, means), append(fix, does)
	}
	if s.cut {
		add(fmt.Sprintf("cut short after %s, with %d looked at", s.q.scan, s.seen), "There may be some among the others.",
			fmt.Sprintf("Give it more time: --scan %s, or 0 to leave it out.", 10*s.q.scan))
	}
	unread := cli.Plural(s.unread, "key") + " could not be read for want of rights"
	switch slices.Sort(s.lacks); {
	case s.unread == 0:
	case len(s.lacks) > 0:
		add(unread, "There may be some among those.", fmt.Sprintf("Run the doctor as an administrator, or grant %s "+
			"to the user it runs as.", strings.Join(slices.Compact(s.lacks), " ")))
	default:
		add(unread, "Keys that no rule of the user's names are no locks of its own.",
			"To look at those, too, run the doctor as an administrator.")
	}
	if f.Status == statusOK && len(fix) > 0 {
		return note("%s", f.Found).means("%s", strings.Join(meaning, " ")).fix("%s", strings.Join(fix, " "))
	}
	return f
}

// walk gives the keys of a type that a glob matches to look, in portions, until the time is over.
func (s *sweep) walk(ctx context.Context, typ, glob string, look func(context.Context, []string) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.q.scan)
	defer cancel()
	err := survey.Keys(ctx, s.Client, glob, typ, func(keys []string) error {
		s.seen += int64(len(keys))
		return look(ctx, keys)
	})
	if s.cut = err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded); s.cut {
		return nil
	}
	return err
}

// endless gives the keys without a time to live to look.
func (s *sweep) endless(ctx context.Context, keys []string, look func(string) error) error {
	var asked rueidis.Commands
	for _, key := range keys {
		asked = append(asked, s.Client.B().Pttl().Key(key).Build())
	}
	for i, answer := range s.Client.DoMulti(ctx, asked...) {
		ttl, err := answer.AsInt64()
		if err == nil && ttl == -1 {
			err = look(keys[i])
		}
		if err := s.passed(err); err != nil {
			return err
		}
	}
	return nil
}

// withoutTTL looks for locks that nothing ends.
func withoutTTL(ctx context.Context, d *doctor, n *node) finding {
	s := sweep{doctor: d, node: n}
	err := s.walk(ctx, "hash", "", func(ctx context.Context, names []string) error {
		return s.endless(ctx, names, func(name string) error {
			entry, err := n.Client.Do(ctx, n.Client.B().Hscan().Key(name).Cursor(0).Count(mostFields).Build()).AsScanEntry()
			if survey.IsLock(entry.Elements) {
				s.add(name)
			}
			return err
		})
	})
	bad := fail("%s without a time to live: %s", cli.Plural(s.bad, "lock"), strings.Join(s.some, ", ")).
		means("Neither Redisson nor this toolkit leaves a lock like this. If its holder dies, nobody can take it any more.").
		fix("redis-cli PEXPIRE NAME %d: a live holder that renews it keeps it, and otherwise it runs out. A holder "+
			"with a lease of its own does not renew it: give that one the time it needs. holdfast show NAME says who. "+
			"Then find out who sent PERSIST, or restored keys without TTL.", max(time.Minute, d.q.lease).Milliseconds())
	return s.told(err, "whether there are locks without a time to live", bad, okay("no lock without a time to live"))
}

// tokens counts the last tokens of fenced locks that stay for ever.
func tokens(ctx context.Context, d *doctor, n *node) finding {
	s := sweep{doctor: d, node: n}
	glob, _, _ := strings.Cut(wire.TokenKey("{"), "{")
	err := s.walk(ctx, "string", glob+"*", func(ctx context.Context, keys []string) error {
		return s.endless(ctx, keys, func(name string) error { s.add(name); return nil })
	})
	have := cli.Plural(s.bad, "token key") + " of fenced locks without a time to live"
	f := okay("%s", have)
	if s.bad >= 10_000 {
		f = note("%s, %s", have, strings.Join(s.some, ", ")).
			means("A name that is locked once keeps its token for ever. They take memory, and nothing else.").
			fix("Set TokenTTL of rlock.Options or fairlock.Options wherever these names are locked; see docs/guarantees.md.")
	}
	return s.told(err, "how many tokens stay for ever", f, f)
}

// goneWaiters looks for places in the queues of fair locks whose waiters have gone.
func goneWaiters(ctx context.Context, d *doctor, n *node) finding {
	s, q := sweep{doctor: d, node: n}, survey.Queue{Client: d.client, Node: n.Client}
	for _, server := range d.nodes {
		if server.err == nil {
			q.Heard = append(q.Heard, server.Client)
		}
	}
	first := "" // how to take one out
	pattern, _, _ := strings.Cut(wire.FairQueue("{"), "{")
	err := s.walk(ctx, "list", pattern+"*", func(ctx context.Context, queues []string) error {
		for _, queue := range queues {
			_, names := wire.KeyOf(queue)
			q.Name, q.Now = names[0], time.Now().Add(n.Ahead)
			gone, next, err := q.Gone(ctx)
			if err := s.passed(err); err != nil {
				return err
			}
			if len(gone) == 0 {
				continue
			}
			s.add(fmt.Sprintf("%s (%d)", names[0], len(gone)))
			if first == "" {
				who, due := quoted(gone[0]), quoted(wire.FairDue(names[0]))
				first = fmt.Sprintf("redis-cli LREM %s 0 %s && redis-cli ZREM %s %s", quoted(queue), who, due, who)
				if len(gone) == 1 && next != "" && !d.cluster() { // which sleeps until the one in front is dead
					first += fmt.Sprintf(" && redis-cli PUBLISH %s 0", quoted(wire.FairChannel(names[0])+next))
				}
			}
		}
		return nil
	})
	bad := warn("%s with waiters whose process is gone: %s", cli.Plural(s.bad, "fair lock"), strings.Join(s.some, ", ")).
		means("They keep their places until the next one asks for the lock; a dead Java waiter that is first can keep "+
			"a free lock from the others for up to 5 minutes.").
		fix("Nothing, if nobody else waits. Otherwise take out one, and run the doctor again: %s", first)
	return s.told(err, "whether waiters of fair locks are gone", bad,
		okay("no fair lock has waiters whose process is gone"))
}
