package porting

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/redis/rueidis"
)

// Single is one server.
func Single() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{"redis.example:6379"},
		SelectDB:    2,
		ClientName:  "orders",
		Username:    "app",
		Password:    os.Getenv("REDIS_PASSWORD"),
	}
}

// Sentinel is what sentinels watch. InitAddress are the sentinels; Username and Password are for the servers.
func Sentinel() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{"sentinel-1.example:26379", "sentinel-2.example:26379", "sentinel-3.example:26379"},
		Sentinel: rueidis.SentinelOption{
			MasterSet: "orders",
			Username:  "watcher",
			Password:  os.Getenv("SENTINEL_PASSWORD"),
		},
		Username: "app",
		Password: os.Getenv("REDIS_PASSWORD"),
	}
}

// Cluster is a cluster, whose other nodes the client learns from those named here.
func Cluster() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{"node-1.example:6379", "node-2.example:6379"},
		Username:    "app",
		Password:    os.Getenv("REDIS_PASSWORD"),
	}
}

// WithTLS trusts the authorities in one file of PEM, and shows the certificate in another with its key.
func WithTLS(client rueidis.ClientOption, authorities, certificate, key string) (rueidis.ClientOption, error) {
	pem, err := os.ReadFile(authorities)
	if err != nil {
		return client, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(pem) {
		return client, fmt.Errorf("%s has no certificate in PEM", authorities)
	}
	own, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return client, err
	}
	client.TLSConfig = &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{own}}
	client.Sentinel.TLSConfig = client.TLSConfig // counts only if there is a MasterSet
	return client, nil
}
