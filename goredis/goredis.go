// Package goredis turns the options of a go-redis client into those with which holdfast.Open connects to the same
// servers, as the same user. It is for programs that have go-redis:
//
//	client, err := goredis.ClientOption(options) // what redis.NewClient or redis.NewUniversalClient gets
//	…
//	session, err := holdfast.Open(client, nil)
//
// The session has connections of its own, two for each server; it shares none with go-redis. [ClientOption] sends
// nothing and changes nothing in the options.
//
// Each field of the options is in one of three lists.
//
// # Fields that count
//
//   - Addr, Addrs, SentinelAddrs, MasterName and IsClusterMode say where the servers are, with the defaults and by the
//     rules of go-redis. A single server stays one: if it is a node of a cluster, pass [redis.ClusterOptions].
//   - Network, "unix" for instance.
//   - Dialer makes all connections, also those to sentinels. If it does not return when its ctx ends, nobody waits for
//     it, and the connection that it makes later is closed. As in go-redis, it is then also responsible for TLS. In a
//     cluster, set TLSConfig all the same: its presence selects the ports for TLS.
//   - TLSConfig, also for sentinels.
//   - Username and Password, and with sentinels SentinelUsername and SentinelPassword. As in go-redis, a name without
//     a password is not sent.
//   - CredentialsProvider, CredentialsProviderContext and StreamingCredentialsProvider are asked before each
//     connection, the last of them that is set. The second gets DialTimeout to answer, by default 5 s. The third is
//     subscribed to once, for as long as the program runs. A session has two connections to a server: the one for
//     commands logs in again every 30 s with the credentials that were sent last, the one for messages only after the
//     server has ended it. If a login is refused, the connection ends, and the outcome of calls under way is unknown.
//   - DB, except in a cluster; ClientName; DisableIdentity and DisableIndentity.
//   - Protocol 2 is RESP2. All others are RESP3.
//   - DialTimeout, and the longer of ReadTimeout and WriteTimeout, which says when a silent connection is given up.
//     0 and less leave it to holdfast.Open, which also limits what is set by the lease.
//
// # Fields that are refused
//
// If they are set, the error names the field and the reason.
//
//   - OnConnect gets a connection of go-redis, and a session has none.
//   - Limiter: a session renews and releases its locks whatever a limiter says.
//   - NewClient and ClusterSlots: a session cannot know what they change.
//   - ReplicaOnly, and ReadOnly with MasterName: go-redis sends everything to replicas then, and locks are on masters.
//   - CredentialsProvider, CredentialsProviderContext and StreamingCredentialsProvider together with sentinels: the
//     client would send them the same credentials.
//   - StreamingCredentialsProvider with Protocol 2, in which a connection that listens cannot log in again.
//
// MasterName and SentinelAddrs of [redis.FailoverOptions] and Addrs of [redis.ClusterOptions] must not be empty. The
// result of a client's Options method will do, except with sentinels: pass the options from which that client was made.
//
// # Fields that are ignored
//
//   - Pools and buffers; a session has its own: PoolFIFO, PoolSize, PoolTimeout, MaxConcurrentDials, MinIdleConns,
//     MaxIdleConns, MaxActiveConns, ConnMaxIdleTime, ReadBufferSize, WriteBufferSize, PipelinePoolSize,
//     PipelineReadBufferSize, PipelineWriteBufferSize, AutoPipelineOptions.
//   - ConnMaxLifetime and ConnMaxLifetimeJitter: a session keeps a connection for as long as it works, because
//     a script in flight could run twice if the client ended it.
//   - Retries; a session retries by rules of its own until the call's ctx ends: MaxRetries, MinRetryBackoff,
//     MaxRetryBackoff, MaxRedirects, DialerRetries, DialerRetryTimeout, DialerRetryBackoff, ContextTimeoutEnabled.
//   - Replicas to read from; locks are not on replicas: ReadOnly in a cluster, RouteByLatency, RouteByLatencyTolerance,
//     RouteRandomly, UseDisconnectedReplicas.
//   - How go-redis follows changes of servers; a session follows them, too: NodeAddress, FailingTimeoutSeconds,
//     ClusterStateReloadInterval, DisableRoutingPolicies, ShardPicker, MaintNotificationsConfig,
//     PushNotificationProcessor.
//   - Caches; a session has none: ClientSideCache, ClientSideCacheConfig, ClientSideCacheStrategy,
//     ClientSideCacheRefreshOnInvalidate, ClientSideCacheCoalesceMisses, ClientSideCacheInvalidationBatchWindow.
//   - IdentitySuffix, which belongs to the name of go-redis; UnstableResp3, which does nothing.
package goredis

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// ClientOption returns the options with which holdfast.Open connects to the servers that a go-redis client with the
// given options uses. For [redis.NewFailoverClusterClient] pass the FailoverOptions. It does not support a
// [redis.Ring]: open a session on one of its servers, or one on each for a RedLock. An error names the field and the
// rule.
func ClientOption[
	O *redis.Options | *redis.UniversalOptions | *redis.ClusterOptions | *redis.FailoverOptions,
](options O) (rueidis.ClientOption, error) {
	var c rueidis.ClientOption
	err := errors.New("the options are nil")
	if options != nil {
		switch o := any(options).(type) {
		case *redis.Options:
			c, err = single(o)
		case *redis.UniversalOptions:
			c, err = universal(o)
		case *redis.ClusterOptions:
			c, err = cluster(o)
		case *redis.FailoverOptions:
			c, err = failover(o)
		}
	}
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("goredis: %w", err)
	}
	return c, nil
}

// universal decides as redis.NewUniversalClient does.
func universal(options *redis.UniversalOptions) (rueidis.ClientOption, error) {
	o := *options // its methods set Addrs
	switch {
	case o.MasterName != "" && o.ReadOnly:
		return refuse("ReadOnly is set with MasterName, must be false: locks are on masters")
	case o.MasterName != "":
		return failover(o.Failover())
	case len(o.Addrs) > 1 || o.IsClusterMode:
		return cluster(o.Cluster())
	default:
		return single(o.Simple())
	}
}

func single(o *redis.Options) (rueidis.ClientOption, error) {
	addr := o.Addr
	switch addr {
	case "":
		addr = "localhost:6379"
	case "FailoverClient":
		return refuse("Addr is FailoverClient: these are the options inside a client for sentinels; " +
			"pass the FailoverOptions or UniversalOptions that it was made of")
	}
	c, err := common(o)
	c.InitAddress = []string{addr}
	c.ForceSingleClient = true // go-redis does not look for a cluster either
	c.SelectDB = max(o.DB, 0)
	return c, err
}

func cluster(o *redis.ClusterOptions) (rueidis.ClientOption, error) {
	switch {
	case len(o.Addrs) == 0:
		return refuse("Addrs is empty, must have the address of a node")
	case o.NewClient != nil && !isDefault(o.NewClient):
		return refuse("NewClient is set, must be nil: what it changes for a node would be lost")
	case o.ClusterSlots != nil:
		return refuse("ClusterSlots is set, must be nil: a session asks the cluster who owns a slot")
	}
	c, err := common(&redis.Options{
		ClientName:                   o.ClientName,
		Dialer:                       o.Dialer,
		OnConnect:                    o.OnConnect,
		Protocol:                     o.Protocol,
		Username:                     o.Username,
		Password:                     o.Password,
		CredentialsProvider:          o.CredentialsProvider,
		CredentialsProviderContext:   o.CredentialsProviderContext,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		DialTimeout:                  o.DialTimeout,
		ReadTimeout:                  o.ReadTimeout,
		WriteTimeout:                 o.WriteTimeout,
		TLSConfig:                    o.TLSConfig,
		DisableIdentity:              o.DisableIdentity || o.DisableIndentity, //nolint:staticcheck // programs still set it
	})
	c.InitAddress = slices.Clone(o.Addrs)
	return c, err
}

// isDefault reports whether this is what go-redis itself sets in the options of a client.
func isDefault(newClient func(*redis.Options) *redis.Client) bool {
	return reflect.ValueOf(newClient).Pointer() == reflect.ValueOf(redis.NewClient).Pointer()
}

const toSentinels = " is set with sentinels, must be nil: the client would send them the same credentials"

func failover(o *redis.FailoverOptions) (rueidis.ClientOption, error) {
	switch {
	case o.MasterName == "":
		return refuse("MasterName is empty, must name the master that the sentinels watch")
	case len(o.SentinelAddrs) == 0:
		return refuse("SentinelAddrs is empty, must have the address of a sentinel")
	case o.ReplicaOnly:
		return refuse("ReplicaOnly is set, must be false: locks are on masters")
	case o.CredentialsProvider != nil:
		return refuse("CredentialsProvider" + toSentinels)
	case o.CredentialsProviderContext != nil:
		return refuse("CredentialsProviderContext" + toSentinels)
	case o.StreamingCredentialsProvider != nil:
		return refuse("StreamingCredentialsProvider" + toSentinels)
	}
	c, err := common(&redis.Options{
		ClientName:      o.ClientName,
		Dialer:          o.Dialer,
		OnConnect:       o.OnConnect,
		Protocol:        o.Protocol,
		Username:        o.Username,
		Password:        o.Password,
		DialTimeout:     o.DialTimeout,
		ReadTimeout:     o.ReadTimeout,
		WriteTimeout:    o.WriteTimeout,
		TLSConfig:       o.TLSConfig,
		DisableIdentity: o.DisableIdentity || o.DisableIndentity, //nolint:staticcheck // programs still set it
	})
	c.InitAddress = slices.Clone(o.SentinelAddrs)
	c.SelectDB = max(o.DB, 0)
	c.Sentinel = rueidis.SentinelOption{
		MasterSet:  o.MasterName,
		ClientName: o.ClientName,
		TLSConfig:  c.TLSConfig,
		Dialer:     c.Dialer,
	}
	c.Sentinel.Username, c.Sentinel.Password = login(o.SentinelUsername, o.SentinelPassword)
	return c, err
}

func refuse(text string) (rueidis.ClientOption, error) {
	return rueidis.ClientOption{}, errors.New(text)
}
