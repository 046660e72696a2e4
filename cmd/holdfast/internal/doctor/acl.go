package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// no is how servers refuse a right: to a call, inside a script, and in a dry run.
var no = regexp.MustCompile(`NOPERM|user executing the script can't|ACL failure in script|has no permissions`)

// noCommand is how they refuse a command; other refusals are of keys and channels.
var noCommand = regexp.MustCompile(`permissions? to run|can't run this command`)

// A missing right, and whether it is the command or what it is about.
type refusal struct {
	right
	command bool
}

// rights says which rights of the ACL are missing.
func rights(ctx context.Context, d *doctor, n *node) finding {
	name := d.probe(n)
	if name == "" {
		return finding{} // no lock with that prefix is on this server
	}
	who := d.who(n)
	sharded := d.cluster() && !unheard(n.do(ctx, "PUBSUB", "SHARDNUMSUB", "0").Error())
	all := d.needed(d.q.kinds, name, sharded)
	refused, err := dryRun(ctx, n, who, all)
	switch {
	case err == nil:
	case who != d.self(n):
		return unknownUser(who, err)
	case !n.writable():
		return note("the rights of %s were not tried: this is a replica", who).fix("Ask the master.")
	default:
		if refused, err = try(ctx, n, name, all); err != nil {
			return unknown("which rights "+who+" has", "+eval", err)
		}
	}
	return d.lacking(who, refused)
}

// who is the user whose rights are in question.
func (d *doctor) who(n *node) string {
	return cmp.Or(d.q.aclUser, d.self(n))
}

// self is the user that the doctor connects as.
func (d *doctor) self(n *node) string { return cmp.Or(n.user, d.opt.Username, "default") }

func (n *node) writable() bool {
	role := n.info["role"]
	if role == "" {
		text := n.hello["role"]
		role, _ = text.ToString()
	}
	return role != "slave" && role != "replica"
}

// unheard reports whether the server does not know a command.
func unheard(err error) bool { return refused(err) && !denied(err) && !rueidis.IsRedisNil(err) }

// dryRun asks the server what it would refuse. The error is that it does not say.
func dryRun(ctx context.Context, n *node, user string, all []right) (refusals []refusal, err error) {
	var asked rueidis.Commands
	for _, r := range all {
		asked = append(asked, n.client.B().Arbitrary("ACL", "DRYRUN", user).Args(r.args...).Build())
	}
	for i, result := range n.client.DoMulti(ctx, asked...) {
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

// trial runs commands and replies what was refused: number, answer and so on. It gives up if it may not
// send any command that would remove what the others leave.
const trial = `
local refused, kept = {}, 0
for i, args in ipairs(cjson.decode(ARGV[1])) do
  local reply = redis.pcall(unpack(args))
  local text = type(reply) == 'table' and reply.err
  if text then
    refused[#refused + 1] = i
    refused[#refused + 1] = text
    if i <= 3 and (text:find('to run', 1, true) or text:find("can't run", 1, true)) then kept = kept + 1 end
  end
  if i == 3 and kept == 3 then break end
end
redis.pcall('DEL', ARGV[2])
redis.pcall('PEXPIRE', ARGV[2], 1)
return refused
`

// try does what needs the rights, on a key that nobody uses. It subscribes last, so that no message of the trial comes
// while a subscription ends.
func try(ctx context.Context, n *node, name string, all []right) (refusals []refusal, err error) {
	add := func(r right, text string) {
		if no.MatchString(text) {
			refusals = append(refusals, refusal{r, noCommand.MatchString(text)})
		}
	}
	var inside, subscriptions []right
	for _, r := range all {
		switch r.how {
		case inScript:
			inside = append(inside, r)
		case directly:
			add(r, plain(n.do(ctx, r.args...).Error()))
		case subscribing:
			subscriptions = append(subscriptions, r)
		}
	}
	if err := tryInside(ctx, n, name, inside, add); err != nil {
		return nil, err
	}
	for _, r := range subscriptions {
		add(r, plain(subscribe(ctx, n, r.args[0], r.args[1])))
	}
	return refusals, nil
}

// tryInside does in one script what needs the rights, if the user may run scripts, and adds what the server said of each.
func tryInside(ctx context.Context, n *node, name string, inside []right, add func(right, string)) error {
	var args [][]string
	for _, r := range inside {
		args = append(args, r.args)
	}
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	answers, err := n.do(ctx, "EVAL", trial, "0", string(text), name).ToArray()
	if denied(err) {
		return nil // EVAL itself is tried, too
	}
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(answers); i += 2 {
		at, err := answers[i].AsInt64()
		if err != nil || at < 1 || int(at) > len(inside) {
			return fmt.Errorf("the trial answers for command %d of %d: %w", at, len(inside), err)
		}
		text, _ := answers[i+1].ToString()
		add(inside[at-1], text)
	}
	return nil
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
	err := n.client.Receive(stop, cmd, func(rueidis.PubSubMessage) {})
	if !refused(err) {
		return nil
	}
	return err
}

func unknownUser(who string, err error) finding {
	switch {
	case denied(err):
		return note("the rights of %s are not known: only who may ACL DRYRUN can ask", who).
			fix("Run the doctor as an administrator, or as %s itself, without --acl-user.", who)
	case refused(err) && strings.Contains(plain(err), "not found"):
		return fail("there is no user %s", who).means("Nobody can connect as it.").
			fix("ACL SETUSER %s on >PASSWORD …; docs/redisson.md has the rules.", who)
	}
	return unknown("which rights "+who+" has", "+acl|dryrun", err)
}

// lacking says what rights are missing.
func (d *doctor) lacking(who string, refusals []refusal) finding {
	var rules, others []string // of commands; of keys and channels
	hidden := false            // whether keys and channels may be used, since the command may not
	for _, r := range refusals {
		rule := r.rule
		switch {
		case r.command && !strings.HasPrefix(rule, "+"):
			rule = "+" + strings.ToLower(r.args[0])
			hidden = true
		case !r.command && strings.HasPrefix(rule, "+"):
			continue // the command is granted; the keys are told of by themselves
		}
		if strings.HasPrefix(rule, "+") {
			rules = append(rules, rule)
		} else {
			others = append(others, rule)
		}
	}
	rules = slices.Compact(slices.Sorted(slices.Values(rules)))
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
		means("Calls that need them fail with NOPERM.").
		fix("ACL SETUSER %s %s", who, missing)
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

// sessionRights says whether sessions may tell which process they are.
func sessionRights(ctx context.Context, d *doctor) finding {
	key := wire.SessionKey("holdfast_doctor")
	n := d.masters()[0]
	who := d.who(n)
	var err error
	if who != d.self(n) {
		var answer string
		answer, err = n.do(ctx, "ACL", "DRYRUN", who, "SET", key, "x").ToString()
		if err == nil && answer == "OK" {
			return okay("sessions of %s may tell which process they are", who)
		}
		if err != nil {
			return finding{} // the check of rights says why
		}
	} else {
		err = d.client.Do(ctx, d.client.B().Pexpire().Key(key).Milliseconds(1).Build()).Error()
		switch {
		case err == nil:
			return okay("sessions may tell which process they are")
		case !denied(err): // the key's server is down, say
			return note("whether sessions may tell which process they are could not be found out: %s", plain(err)).
				fix("Mend what the other checks complain of, and run the doctor again.")
		}
	}
	return note("sessions of %s may not tell which process they are: it has no right to keys holdfast_session:*", who).
		means("Locks work. Only who holds and who waits is shown without host and process.").
		fix("ACL SETUSER %s ~holdfast_session:*; or set Options.Anonymous, and they do not try.", who)
}
