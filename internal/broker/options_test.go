package broker

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(*Options)
		wantErr string
	}{
		"the defaults are valid":      {change: func(*Options) {}},
		"several servers are valid":   {change: func(o *Options) { o.URL = "nats://a:4222, tls://b:4222" }},
		"an empty URL is refused":     {change: func(o *Options) { o.URL = "" }, wantErr: "must not be empty"},
		"a missing host is refused":   {change: func(o *Options) { o.URL = "nats://" }, wantErr: "no host"},
		"a foreign scheme is refused": {change: func(o *Options) { o.URL = "http://a" }, wantErr: `scheme "http"`},
		"a broken URL is not quoted":  {change: func(o *Options) { o.URL = "nats://u:secret@a:x" }, wantErr: "is not a URL"},
		"a certificate needs its key": {change: func(o *Options) { o.CertFile = "tls.crt" }, wantErr: "need each other"},
		"a key needs its certificate": {change: func(o *Options) { o.KeyFile = "tls.key" }, wantErr: "need each other"},
		"a user needs a password":     {change: func(o *Options) { o.User = "rouse" }, wantErr: "need each other"},
		"a password needs a user":     {change: func(o *Options) { o.PasswordFile = "password" }, wantErr: "need each other"},
		"an nkey is valid":            {change: func(o *Options) { o.NKeyFile = "seed" }},
		"two logins are refused": {
			change:  func(o *Options) { o.CredsFile, o.TokenFile = "nats.creds", "token" },
			wantErr: "--nats-creds, --nats-token-file: use one of them",
		},
		"a login beside one in the URL is refused": {
			change:  func(o *Options) { o.URL, o.NKeyFile = "nats://a,nats://u:secret@b", "seed" },
			wantErr: "--nats-nkey, user in --nats-url: use one of them",
		},
		"a certificate with a key is valid": {change: func(o *Options) { o.CertFile, o.KeyFile = "tls.crt", "tls.key" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			tc.change(&options)
			err := options.Validate()
			if tc.wantErr == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.wantErr)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestStreamOptionsValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(*StreamOptions)
		wantErr string
	}{
		"the defaults are valid":      {change: func(*StreamOptions) {}},
		"an empty name":               {change: func(o *StreamOptions) { o.Name = "" }, wantErr: "--stream-name"},
		"the dead letters' name":      {change: func(o *StreamOptions) { o.Name = DeadLetterStream }, wantErr: "--stream-name"},
		"no replica":                  {change: func(o *StreamOptions) { o.Replicas = 0 }, wantErr: "--stream-replicas"},
		"an unknown storage":          {change: func(o *StreamOptions) { o.Storage = "tape" }, wantErr: "--stream-storage"},
		"no bytes":                    {change: func(o *StreamOptions) { o.MaxBytes = 0 }, wantErr: "--stream-max-bytes"},
		"no messages":                 {change: func(o *StreamOptions) { o.MaxMsgsPerSubject = 0 }, wantErr: "--stream-max-msgs-per-subject"},
		"no duplicate window":         {change: func(o *StreamOptions) { o.DuplicateWindow = 0 }, wantErr: "--stream-duplicate-window"},
		"dead letters kept too short": {change: func(o *StreamOptions) { o.DeadLetterMaxAge = 1 }, wantErr: "--stream-dead-letter-max-age"},
		"no bytes for dead letters":   {change: func(o *StreamOptions) { o.DeadLetterMaxBytes = 0 }, wantErr: "--stream-dead-letter-max-bytes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultStreamOptions()
			tc.change(&options)
			if tc.wantErr == "" {
				require.NoError(t, options.Validate())
				return
			}
			require.ErrorContains(t, options.Validate(), tc.wantErr)
		})
	}
}

func TestFlagsFillTheOptions(t *testing.T) {
	t.Parallel()
	options, streams := DefaultOptions(), DefaultStreamOptions()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	options.BindFlags(fs)
	streams.BindFlags(fs)

	require.NoError(t, fs.Parse([]string{"--nats-url=nats://there:1", "--stream-max-bytes=2Gi", "--stream-replicas=3"}))

	require.Equal(t, "nats://there:1", options.URL)
	require.Equal(t, int64(2<<30), streams.MaxBytes)
	require.Equal(t, 3, streams.Replicas)
	require.Error(t, fs.Parse([]string{"--stream-max-bytes=much"}))
	require.Equal(t, "734003200", fs.Lookup("stream-max-bytes").DefValue)
}
