// Package drill is what the processes of the command holdfast trial do, while the user lets a server fail: they take
// and release locks, and tell each hold when it is over. From that it finds what an operator should know: when nobody
// could take a lock, who lost one, who had one beside somebody else and when the first was told, tokens that went back.
package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// permits are the kind of lock that several may have.
const permits = "permits"

// A Lock is one of those that all processes want.
type Lock struct {
	Kind, Label, Name string
	Long              bool // it is held for about a lease; the others for a moment, so somebody takes them all the time
}

// room is how many may have it at once.
func (l Lock) room() int {
	if l.Kind == permits {
		return 2
	}
	return 1
}

// Locks are a lock of each kind that is held for a moment, and one that is held for long, on each master.
func Locks(ctx context.Context, client rueidis.Client, prefix string) (all []Lock, err error) {
	masters, slots := []string{""}, cluster.Map(nil)
	if client.Mode() == rueidis.ClientModeCluster {
		if slots, err = cluster.Slots(ctx, client, func(f func()) { go f() }); err != nil {
			return nil, err
		}
		masters = slots.Without(nil)
	}
	for _, master := range masters {
		for _, kind := range []string{"lock", "fair", "write", "fenced", permits} {
			for _, label := range []string{kind, kind + "-long"} {
				l := Lock{Kind: kind, Label: label, Name: prefix + label, Long: label != kind}
				for i := 0; slots.Owner(wire.Slot(l.Name)) != master; i++ {
					l.Name = fmt.Sprint(prefix, label, ":", i)
				}
				if master != "" {
					l.Label += "@" + master
				}
				all = append(all, l)
			}
		}
	}
	return all, nil
}

// Prepare makes what must be there before the locks can be taken.
func Prepare(ctx context.Context, client rueidis.Client, locks []Lock) error {
	s, err := holdfast.NewSession(client, &holdfast.Options{Anonymous: true})
	if err != nil {
		return err
	}
	defer s.Close()
	for _, l := range locks {
		if l.Kind == permits {
			if _, err := semaphore.NewExpirable(s, l.Name, nil).TrySetPermits(ctx, l.room()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove removes all keys of the locks. It tries again until ctx ends, unless it has no right to, and returns why it
// could not before. It does so twice: what processes that have ended had under way at a silent server, this executes
// along with the first command that it answers.
func Remove(ctx context.Context, client rueidis.Client, locks []Lock) error {
	removed := false
	for last := error(nil); ; {
		var err error
		for _, l := range locks {
			for _, k := range wire.Keys {
				err = cmp.Or(err, client.Do(ctx, client.B().Del().Key(k.Of(l.Name)).Build()).Error())
			}
		}
		switch {
		case err == nil && removed:
			return nil
		case err == nil:
			removed = true
			continue
		case ctx.Err() != nil, refusal.Denied(err):
			return cmp.Or(last, err)
		}
		last = err
		pause(ctx, 100*time.Millisecond)
	}
}

// A Process is one of those that take the locks.
type Process struct {
	Session *holdfast.Session
	Locks   []Lock
	Number  int
	Lease   time.Duration
	Clock   func() time.Duration // that all processes share
	Tell    func(Event)          // is called by many goroutines
}

// Work takes the locks until ctx ends.
func (p *Process) Work(ctx context.Context) {
	var all sync.WaitGroup
	for i, l := range p.Locks {
		take := map[string]func(context.Context) (*holdfast.Hold, error){
			"lock":   rlock.New(p.Session, l.Name, nil).Lock,
			"fair":   fairlock.New(p.Session, l.Name, nil).Lock,
			"write":  rwlock.New(p.Session, l.Name, nil).Write().Lock,
			"fenced": rlock.New(p.Session, l.Name, &rlock.Options{Fenced: true}).Lock,
			permits:  semaphore.NewExpirable(p.Session, l.Name, nil).Acquire,
		}[l.Kind]
		all.Go(func() {
			for ctx.Err() == nil {
				p.hold(ctx, i, take)
			}
		})
	}
	all.Wait()
}

// hold takes a lock, works, and releases it.
func (p *Process) hold(ctx context.Context, i int, take func(context.Context) (*holdfast.Hold, error)) {
	hold, err := take(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.tell(i, nil, err)
			pause(ctx, 100*time.Millisecond)
		}
		return
	}
	b := &Belief{Lock: i, Process: p.Number, From: p.Clock(), Token: hold.Token()}
	length := 20*time.Millisecond + rand.N(40*time.Millisecond)
	if p.Locks[i].Long {
		length = p.Lease/2 + rand.N(3*p.Lease/2)
	}
	pause(hold.Context(ctx), length)
	b.To = p.Clock()
	if hold.Err() != nil {
		b.Told = b.To
	}
	if err = hold.Release(); err != nil && b.Told == 0 { // only now
		b.Told = p.Clock()
	}
	p.tell(i, b, err)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// localPort is what differs in errors that are the same.
var localPort = regexp.MustCompile(`\S+:\d+->`)

func (p *Process) tell(i int, b *Belief, err error) {
	e := Event{Belief: b, Lost: errors.Is(err, holdfast.ErrLost)}
	if err != nil {
		e.Error = localPort.ReplaceAllString(strings.ReplaceAll(err.Error(), p.Locks[i].Name, p.Locks[i].Label), "")
	}
	p.Tell(e)
}
