package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A right is one rule of the ACL and a command that needs it.
type right struct {
	rule string
	args []string
}

// calls are what all sessions send, and what scripts call, each with arguments that do no harm to the key: it is
// there for the first ones, and then a text, which is of the wrong type for most.
//
//go:embed calls.txt
var calls string

// removing is how many of the calls remove what the others leave.
const removing = 3

// needed are all rights that a program with locks of these kinds needs on a server.
func (d *doctor) needed(name string, sharded bool) (all []right) { //nolint:revive // what the server has
	command := func(args ...string) { all = append(all, right{"+" + strings.ToLower(args[0]), args}) }
	for call := range strings.Lines(calls) {
		args := strings.Fields(call)
		if i := slices.Index(args, "key"); i >= 0 {
			args[i] = name
		}
		command(args...)
	}
	publish, subscribe, count, begins := "PUBLISH", "SUBSCRIBE", "NUMSUB", literal(d.q.prefix)+"*"
	if sharded {
		publish, subscribe, count = "SPUBLISH", "SSUBSCRIBE", "SHARDNUMSUB"
	}
	add := func(r right) { // kinds may share some
		if !slices.ContainsFunc(all, func(other right) bool { return other.rule == r.rule }) {
			all = append(all, r)
		}
	}
	for _, k := range wire.Keys {
		if k.Kind == "" || slices.Contains(d.q.kinds, k.Kind) {
			add(right{"~" + k.Of(begins), []string{"PEXPIRE", k.Of(name), "1"}})
		}
	}
	for _, c := range wire.Channels {
		if slices.Contains(d.q.kinds, c.Kind) {
			add(right{"&" + c.Of(begins), []string{publish, c.Of(name), "0"}})
		}
	}
	command(publish, wire.LockChannel(name), "0")
	all = append(all, right{"+pubsub|" + strings.ToLower(count), []string{"PUBSUB", count, wire.LockChannel(name)}})
	switch {
	case d.cluster():
		all = append(all, right{"+cluster|slots", []string{"CLUSTER", "SLOTS"}})
	case d.sentinel():
		command("ROLE")
	}
	command(subscribe, wire.LockChannel(name)) // the last one, as try wants it
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

// A refusal is a missing right.
type refusal struct {
	right
	command bool // it is the command that is refused, not what it is about
}

// rights says which rights of the ACL are missing.
func rights(ctx context.Context, d *doctor, n *node) finding {
	name := d.probe(n)
	if name == "" {
		return finding{} // no lock with that prefix is on this server
	}
	who := d.who(n)
	err := n.do(ctx, "PUBSUB", "SHARDNUMSUB", "0").Error()
	all := d.needed(name, d.cluster() && (!cli.Answered(err) || cli.Denied(err))) // else it is not known
	refused, err := dryRun(ctx, n, who, all)
	switch {
	case err == nil:
	case who != d.self(n):
		return unknownUser(who, err)
	case n.replica():
		return note("the rights of %s were not tried: this is a replica", who).fix("Ask the master.")
	default:
		if refused, err = try(ctx, n, all); err != nil {
			return unknown("which rights "+who+" has", "+eval", err)
		}
	}
	return d.lacking(who, refused)
}

// probe is a name that nobody uses, in a slot that the server serves; "" if there is none with the prefix.
func (d *doctor) probe(n *node) string {
	for range 100_000 {
		name := d.q.prefix + "holdfast_doctor:" + rand.Text()
		slot := int64(wire.Slot(name))
		if !d.cluster() || d.slots.Has(n.addr, slot, slot) {
			return name
		}
	}
	return ""
}

// who is the user whose rights are in question.
func (d *doctor) who(n *node) string { return cmp.Or(d.q.aclUser, d.self(n)) }

// self is the user that the doctor connects as.
func (d *doctor) self(n *node) string { return cmp.Or(n.user, d.opt.Username, "default") }

// dryRun asks the server what it would refuse. The error is that it does not say.
func dryRun(ctx context.Context, n *node, user string, all []right) (refusals []refusal, err error) {
	for i, result := range n.doAll(ctx, all, "ACL", "DRYRUN", user) {
		answer, err := result.ToString()
		if err != nil {
			return nil, err
		}
		if answer != "OK" {
			refusals = append(refusals, refusal{all[i], noCommand.MatchString(answer)})
		}
	}
	return refusals, nil
}

// doAll sends the commands of the rights, each behind the words given.
func (n *node) doAll(ctx context.Context, rights []right, words ...string) []rueidis.RedisResult {
	var asked rueidis.Commands
	for _, r := range rights {
		asked = append(asked, n.client.B().Arbitrary(words...).Args(r.args...).Build())
	}
	return n.client.DoMulti(ctx, asked...)
}

// try does what needs the rights, on a key that nobody uses, which it removes. If it may send none of the commands
// that remove the key, it tries no others.
func try(ctx context.Context, n *node, all []right) (refusals []refusal, err error) {
	send := func(rights ...right) error {
		for i, result := range n.doAll(ctx, rights) {
			err := result.Error()
			switch {
			case cli.Denied(err):
				refusals = append(refusals, refusal{rights[i], noCommand.MatchString(plain(err))})
			case err != nil && !cli.Answered(err) && !rueidis.IsRedisNil(err):
				return err
			}
		}
		return nil
	}
	if err := send(all[:removing]...); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(refusals, func(r refusal) bool { return !r.command }) && len(refusals) == removing {
		return refusals, nil
	}
	last := all[len(all)-1]
	if err := send(slices.Concat(all[removing:len(all)-1], all[1:2], all[:1])...); err != nil {
		return nil, err
	}
	if err := subscribe(ctx, n, last.args[0], last.args[1]); cli.Denied(err) {
		refusals = append(refusals, refusal{last, noCommand.MatchString(plain(err))})
	}
	return refusals, nil
}

// subscribe subscribes to a channel and ends that at once.
func subscribe(ctx context.Context, n *node, command, channel string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { cancel() })
	b := n.client.B()
	cmd := b.Subscribe().Channel(channel).Build()
	if command == "SSUBSCRIBE" {
		cmd = b.Ssubscribe().Channel(channel).Build()
	}
	return n.client.Receive(stop, cmd, func(rueidis.PubSubMessage) {})
}

func unknownUser(who string, err error) finding {
	switch {
	case cli.Denied(err):
		return note("the rights of %s are not known: only a user with the right to ACL DRYRUN can ask", who).
			fix("Run the doctor as an administrator, or as %s itself, without --acl-user.", who)
	case cli.Answered(err) && strings.Contains(plain(err), "not found"):
		return fail("there is no user %s", who).means("Nobody can connect as it.").
			fix("ACL SETUSER %s on >PASSWORD …; docs/redisson.md has the rules.", who)
	}
	return unknown("which rights "+who+" has", "+acl|dryrun", err)
}

// lacking says what rights are missing.
func (d *doctor) lacking(who string, refusals []refusal) finding {
	var rules, others []string // of commands; of keys and channels
	hidden := false            // whether keys and channels may be used, because the command may not
	for _, r := range refusals {
		switch of := strings.HasPrefix(r.rule, "+"); {
		case of && r.command:
			rules = append(rules, r.rule)
		case r.command:
			rules = append(rules, "+"+strings.ToLower(r.args[0]))
			hidden = true
		case !of: // else the command is granted, and the keys have rules of their own
			others = append(others, r.rule)
		}
	}
	slices.Sort(rules)
	rules = slices.Compact(rules)
	names := "for all names"
	if d.q.prefix != "" {
		names = fmt.Sprintf("for names that begin with %q", d.q.prefix)
	}
	switch {
	case len(rules) == 0 && len(others) == 0:
		return okay("%s has all rights, %s", who, names)
	case len(rules) == 0 && d.q.prefix == "":
		return note("%s may send all commands, but not use all keys and channels", who).
			means("Whether it may use those of your locks is not known.").
			fix("Say what the names of your locks begin with: --prefix app:")
	case d.q.prefix == "":
		others = nil
	}
	missing := strings.Join(slices.Concat(rules, others), " ")
	f := fail("%s lacks rights, %s: %s", who, names, missing).
		means("Calls that need them fail with NOPERM.").fix("ACL SETUSER %s %s", who, missing)
	if d.cluster() {
		f.Fix += " on each server"
	}
	if hidden {
		f.Fix += " and then run the doctor again, since rights to keys and channels show only with those to commands"
	}
	if len(rules) == 0 && len(d.q.kinds) > 1 {
		f.Meaning += " If only some kinds of locks are used, name them with --kinds."
	}
	return f
}

// sessionRights says whether sessions may publish which process they are.
func sessionRights(ctx context.Context, d *doctor) finding {
	key := wire.SessionKey("holdfast_doctor")
	n := d.masters()[0]
	who := d.who(n)
	granted := okay("sessions of %s may publish which process they are", who)
	if who == d.self(n) {
		err := d.client.Do(ctx, d.client.B().Pexpire().Key(key).Milliseconds(1).Build()).Error()
		switch {
		case err == nil:
			return granted
		case !cli.Denied(err): // the key's server is down, say
			return note("whether sessions may publish which process they are could not be found out: %s", plain(err)).
				fix("Fix what the other checks report, and run the doctor again.")
		}
	} else if refused, err := dryRun(ctx, n, who, []right{{args: []string{"SET", key, "x"}}}); err != nil {
		return finding{} // the check of rights says why
	} else if len(refused) == 0 {
		return granted
	}
	return note("sessions of %s may not publish which process they are: it has no right to keys holdfast_session:*", who).
		means("Locks work. But holders and waiters are shown without host and process.").
		fix("ACL SETUSER %s ~holdfast_session:*; or set Options.Anonymous, and they do not try.", who)
}
