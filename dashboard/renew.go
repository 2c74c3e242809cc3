package dashboard

import (
	"context"
	"errors"
	"time"
)

// renew renews the token of a session whose grant is due. What cannot be renewed lasts as long as its token.
func (s *Sessions) renew(ctx context.Context, one *session) {
	if s.options.Issuer == nil {
		return
	}
	one.renewing.Lock() // an issuer may take a refresh token that comes twice for a stolen one
	defer one.renewing.Unlock()
	s.mu.Lock()
	grant, member := one.grant, one.member
	s.mu.Unlock()
	if grant.Refresh == "" || time.Now().Before(grant.RenewAt) || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout) // the issuer has replaced the refresh token, whoever still asks
	defer cancel()
	next, err := s.options.Issuer.Renew(ctx, grant)
	if err == nil {
		grant.Refresh = next.Refresh
		err = member.Renew(ctx, next.Token)
	}
	switch {
	case err == nil:
		grant = next
	case errors.Is(err, ErrNotRenewed), errors.Is(err, ErrUnauthenticated):
		s.log.Info("the token of a session is not renewed", "user", member.User().Name, "reason", err.Error())
		grant.Refresh = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one.grant = grant
}
