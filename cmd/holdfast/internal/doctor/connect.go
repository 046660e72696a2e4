package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// connect connects as a session does, with one connection for each server.
func (d *doctor) connect() (err error) {
	opt := &d.opt
	opt.DisableRetry = true
	opt.ConnWriteTimeout = d.q.timeout
	opt.Dialer.Timeout, opt.Sentinel.Dialer.Timeout = d.q.timeout, d.q.timeout
	d.client, err = d.redis.NewClient(*opt)
	return err
}

// reach finds the servers and learns what the other checks ask them for.
func (d *doctor) reach(ctx context.Context) (found []finding) {
	learning, cancel := context.WithTimeout(ctx, 2*d.q.timeout)
	defer cancel()
	for addr, client := range d.client.Nodes() {
		d.nodes = append(d.nodes, &node{addr: addr, client: client})
	}
	slices.SortFunc(d.nodes, func(a, b *node) int { return cmp.Compare(a.addr, b.addr) })
	var wg sync.WaitGroup
	for _, n := range d.nodes {
		wg.Go(func() { n.learn(learning) })
	}
	wg.Wait()
	if d.cluster() {
		d.slots.learn(ctx, d)
	}
	for _, n := range d.nodes {
		n.master = !d.cluster() || d.slots.has(n.addr)
		if n.err != nil {
			found = append(found, named("reach", absent(d, n)).on(n))
		}
	}
	if d.slots.err != nil {
		found = append(found, named("reach", unreachable(d, d.place, d.slots.err)))
	}
	if masters := d.masters(); len(masters) > 0 {
		secure := "without TLS"
		if d.opt.TLSConfig != nil {
			secure = "with TLS"
		}
		who := "the user " + masters[0].user
		if masters[0].user == "" {
			who = "a user that may not ask its name"
		}
		answers := d.place + " answers"
		if silent := len(found); silent > 0 {
			answers = fmt.Sprintf("%d of %d servers of %s answer", len(d.nodes)-silent, len(d.nodes), d.place)
		}
		found = append(found, named("reach", okay("%s, %s, to %s", answers, secure, who)))
	}
	return found
}

// absent says of which server there is no answer, and what that means for locks.
func absent(d *doctor, n *node) finding {
	switch master := d.slots.masterOf(n.addr); {
	case !d.cluster() || d.slots.err != nil:
		return unreachable(d, n.addr, n.err)
	case n.master:
		return unreachable(d, n.addr, n.err).
			means("Locks whose names fall into its slots cannot be taken, and holders lose theirs when their leases are over; see topology.")
	default:
		where := n.addr + ", which has no slots"
		if master != "" {
			where = n.addr + ", a replica of " + master
		}
		f := unreachable(d, where, n.err).means("Locks go on. But there is one server fewer to take over when a master fails.")
		f.Status = statusWarn
		return f
	}
}

// unreachable says why a server cannot be talked to.
func unreachable(d *doctor, where string, err error) finding {
	f := fail("no answer from %s: %s", where, plain(err))
	if refused(err) {
		f = fail("%s refuses: %s", where, plain(err))
	}
	f.Meaning = "No lock can be taken, and holders lose theirs when their leases are over."
	f.Fix = remedy(d, err)
	return f
}

// remedy is what may help against an error of a connection.
func remedy(d *doctor, err error) string {
	text := plain(err)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	var dns *net.DNSError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var record tls.RecordHeaderError
	secure := d.opt.TLSConfig != nil
	switch {
	case has("WRONGPASS", "invalid password"):
		return "Check user and password: HOLDFAST_REDIS_USER and HOLDFAST_REDIS_PASSWORD, or those in HOLDFAST_REDIS; ACL LIST shows the users."
	case has("NOAUTH"):
		return "It wants a password: set HOLDFAST_REDIS_PASSWORD, and HOLDFAST_REDIS_USER if the user is not default."
	case has("NOPERM"):
		return "A right to connect is missing: grant +cluster|slots in a cluster, +role behind Sentinel, +select with a database."
	case has("LOADING"):
		return "It has just started and reads its data: wait."
	case has("max number of clients"):
		return "It has no room for more connections: raise maxclients, or find who opens so many with CLIENT LIST."
	case has("sentinel"), d.opt.Sentinel.MasterSet != "" && has("nil message"):
		return "Check the name behind ?master_set=, and that the addresses are those of Sentinels: SENTINEL MASTERS shows the names."
	case errors.As(err, &dns):
		return "No such host: check the name in the URL."
	case errors.As(err, &authority), has("certificate signed by unknown authority"):
		return "Its certificate is signed by somebody unknown here: name the signer's with --cacert."
	case errors.As(err, &hostname):
		return "Its certificate is for another name: connect by that name, or give it with --sni."
	case errors.As(err, &record), has("first record does not look like a TLS handshake"):
		return "It does not speak TLS: use redis:// instead of rediss://."
	case has("certificate required", "bad certificate", "handshake failure"):
		return "It wants a certificate of this client: give --cert and --key."
	case errors.Is(err, syscall.ECONNREFUSED), has("refused"):
		return "Nobody listens there: check host and port, and that the server runs."
	case cli.TimedOut(err):
		if secure {
			return "It is silent: check host and port, firewalls, whether the server hangs, and whether it does not speak TLS (redis://)."
		}
		return "It is silent: check host and port, firewalls, whether the server hangs, and whether it wants TLS (rediss://)."
	case secure:
		return "Check the URL, that the server runs, and whether it wants a certificate of this client (--cert and --key)."
	}
	return "Check the URL, that the server runs, and whether it wants TLS (rediss://)."
}
