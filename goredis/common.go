package goredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// common maps what all kinds of options have in common.
func common(o *redis.Options) (rueidis.ClientOption, error) {
	switch {
	case o.OnConnect != nil:
		return refuse("OnConnect is set, must be nil: a session has no connection of go-redis to give it")
	case o.Limiter != nil:
		return refuse("Limiter is set, must be nil: a session renews and releases its locks whatever a limiter says")
	case o.StreamingCredentialsProvider != nil && o.Protocol == 2:
		return refuse("StreamingCredentialsProvider is set with Protocol 2, must be nil: " +
			"in RESP2 a connection that listens cannot log in again")
	}
	c := rueidis.ClientOption{
		ClientName:        o.ClientName,
		AlwaysRESP2:       o.Protocol == 2,
		TLSConfig:         o.TLSConfig,
		DialCtxFn:         dial(o),
		Dialer:            net.Dialer{Timeout: max(o.DialTimeout, 0)},
		ConnWriteTimeout:  silence(o.ReadTimeout, o.WriteTimeout),
		AuthCredentialsFn: provider(o),
	}
	c.Username, c.Password = login(o.Username, o.Password)
	if o.DisableIdentity || o.DisableIndentity { //nolint:staticcheck // programs still set it
		c.ClientSetInfo = rueidis.DisableClientSetInfo
	}
	return c, nil
}

// silence is how long a connection may be silent, or 0 if the options do not say. The client has one limit for both
// directions.
func silence(read, write time.Duration) time.Duration {
	if write == 0 {
		write = read
	}
	if read <= 0 || write <= 0 {
		return 0
	}
	return max(read, write)
}

// dial returns nil if the client's own way of dialing does the same.
func dial(o *redis.Options) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	network := o.Network
	if network == "" && strings.HasPrefix(o.Addr, "/") {
		network = "unix"
	}
	network = cmp.Or(network, "tcp")
	if own := o.Dialer; own != nil {
		return func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if d.Timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, d.Timeout)
				defer cancel()
			}
			return promptly(ctx, network, addr, own)
		}
	}
	if network == "tcp" {
		return nil
	}
	return func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		if c != nil {
			return (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, network, addr)
		}
		return d.DialContext(ctx, network, addr)
	}
}

// promptly dials until ctx ends, whatever the dialer does: that of go-redis, which the options of a client have, does
// not look at ctx while it dials with TLS. A connection that is made too late is closed.
func promptly(
	ctx context.Context, network, addr string, dial func(ctx context.Context, network, addr string) (net.Conn, error),
) (net.Conn, error) {
	type end struct {
		conn net.Conn
		err  error
	}
	made := make(chan end)
	go func() {
		conn, err := dial(ctx, network, addr)
		select {
		case made <- end{conn, err}:
		case <-ctx.Done():
			if err == nil { // else conn may be a nil *tls.Conn
				_ = conn.Close()
			}
		}
	}()
	select {
	case e := <-made:
		return e.conn, e.err
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: network, Addr: address{network, addr}, Err: context.Cause(ctx)}
	}
}

// An address is one that was dialled.
type address struct{ network, text string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.text }
