// Package rights knows which rights of the ACL a program with locks needs, and finds out which a user lacks.
package rights

import (
	"context"
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Right is one rule of the ACL and a command that needs it.
type Right struct {
	Rule string
	Args []string
}

// calls are what all sessions send, and what scripts call, each with arguments that do no harm to the key: it is
// there for the first ones, and then a text, which is of the wrong type for most.
//
//go:embed calls.txt
var calls string

// removing is how many of the first rights are to commands that remove what the others leave.
const removing = 3

// A Program is what the rights of a program depend on.
type Program struct {
	Kinds             []string // the packages of its locks
	Prefix            string   // what the names of its locks begin with
	Sharded           bool     // it uses sharded messages
	Cluster, Sentinel bool     // how it finds the servers
}

// Needed are all rights that a program needs on a server. Their commands are about the name given. The last one
// subscribes to a channel.
func (p *Program) Needed(name string) (all []Right) {
	command := func(args ...string) { all = append(all, Right{"+" + strings.ToLower(args[0]), args}) }
	for call := range strings.Lines(calls) {
		args := strings.Fields(call)
		if i := slices.Index(args, "key"); i >= 0 {
			args[i] = name
		}
		command(args...)
	}
	publish, subscribe, count, begins := "PUBLISH", "SUBSCRIBE", "NUMSUB", literal(p.Prefix)+"*"
	if p.Sharded {
		publish, subscribe, count = "SPUBLISH", "SSUBSCRIBE", "SHARDNUMSUB"
	}
	add := func(r Right) { // kinds may share some
		if !slices.ContainsFunc(all, func(other Right) bool { return other.Rule == r.Rule }) {
			all = append(all, r)
		}
	}
	for _, k := range wire.Keys {
		if k.Kind == "" || slices.Contains(p.Kinds, k.Kind) {
			add(Right{"~" + k.Of(begins), []string{"PEXPIRE", k.Of(name), "1"}})
		}
	}
	for _, c := range wire.Channels {
		if slices.Contains(p.Kinds, c.Kind) {
			add(Right{"&" + c.Of(begins), []string{publish, c.Of(name), "0"}})
		}
	}
	command(publish, wire.LockChannel(name), "0")
	all = append(all, Right{"+pubsub|" + strings.ToLower(count), []string{"PUBSUB", count, wire.LockChannel(name)}})
	switch {
	case p.Cluster:
		all = append(all, Right{"+cluster|slots", []string{"CLUSTER", "SLOTS"}})
	case p.Sentinel:
		command("ROLE")
	}
	command(subscribe, wire.LockChannel(name))
	return all
}

// literal is a prefix as it stands in a rule of the ACL, which is a glob. What no rule can have, or the prompt
// of redis-cli does not take as it is, stands as a character that may be any.
func literal(prefix string) string {
	var b strings.Builder
	for _, c := range []byte(prefix) {
		switch {
		case c <= ' ' || c >= 0x7f || c == '"' || c == '\'':
			c = '?'
		case strings.IndexByte(`*?[]\`, c) >= 0:
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// noCommand is how servers refuse a command; other refusals are of keys and channels.
var noCommand = regexp.MustCompile(`permissions? to run|can't run this command`)

// ofCommand reports whether it is the command that a server refuses with that text, which may be broken into lines.
func ofCommand(text string) bool {
	return noCommand.MatchString(strings.Join(strings.Fields(text), " "))
}

// A Refusal is a missing right.
type Refusal struct {
	Right
	Command bool // it is the command that is refused, not what it is about
}

// DryRun asks the server what it would refuse. The error is that it does not say.
func DryRun(ctx context.Context, client rueidis.Client, user string, all []Right) (refusals []Refusal, err error) {
	for i, result := range doAll(ctx, client, all, "ACL", "DRYRUN", user) {
		answer, err := result.ToString()
		if err != nil {
			return nil, err
		}
		if answer != "OK" {
			refusals = append(refusals, Refusal{all[i], ofCommand(answer)})
		}
	}
	return refusals, nil
}

// doAll sends the commands of the rights, each behind the words given.
func doAll(ctx context.Context, client rueidis.Client, wanted []Right, words ...string) []rueidis.RedisResult {
	var asked rueidis.Commands
	for _, r := range wanted {
		asked = append(asked, client.B().Arbitrary(words...).Args(r.Args...).Build())
	}
	return client.DoMulti(ctx, asked...)
}

// Try does what needs the rights, on a key that nobody uses, which it removes. If it may send none of the commands
// that remove the key, it tries no others.
func Try(ctx context.Context, client rueidis.Client, all []Right) (refusals []Refusal, err error) {
	send := func(wanted ...Right) error {
		for i, result := range doAll(ctx, client, wanted) {
			err := result.Error()
			switch {
			case refusal.Denied(err):
				refusals = append(refusals, Refusal{wanted[i], ofCommand(err.Error())})
			case err != nil && !refusal.Is(err) && !rueidis.IsRedisNil(err):
				return err
			}
		}
		return nil
	}
	if err := send(all[:removing]...); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(refusals, func(r Refusal) bool { return !r.Command }) && len(refusals) == removing {
		return refusals, nil
	}
	last := all[len(all)-1]
	if err := send(slices.Concat(all[removing:len(all)-1], all[1:2], all[:1])...); err != nil {
		return nil, err
	}
	if err := subscribe(ctx, client, last.Args[0], last.Args[1]); refusal.Denied(err) {
		refusals = append(refusals, Refusal{last, ofCommand(err.Error())})
	}
	return refusals, nil
}

// subscribe subscribes to a channel and ends that at once.
func subscribe(ctx context.Context, client rueidis.Client, command, channel string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { cancel() })
	b := client.B()
	cmd := b.Subscribe().Channel(channel).Build()
	if command == "SSUBSCRIBE" {
		cmd = b.Ssubscribe().Channel(channel).Build()
	}
	return client.Receive(stop, cmd, func(rueidis.PubSubMessage) {})
}
