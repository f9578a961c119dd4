package guard

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds on what clients can take, however slow or many they are.
const (
	headTime  = 10 * time.Second // for the handshake, and then for the header of a request
	readTime  = 15 * time.Second
	writeTime = 2 * time.Minute // from the end of the header
	idleTime  = time.Minute
	maxHead   = 16 << 10
	endTime   = 2 * time.Second // for requests in progress at the end
)

// Serve serves on l until the context ends, then waits for the requests in progress. It allows 128
// clients, and 64 of one address; for another one it closes an idle connection. It logs clients at
// level Debug only.
func Serve(ctx context.Context, l net.Listener, h http.Handler, certs *Certificates, log *slog.Logger) error {
	s := &http.Server{Handler: answering(h), ConnContext: known, ReadHeaderTimeout: headTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHead, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), Protocols: &http.Protocols{},
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }}
	s.Protocols.SetHTTP1(true) // one request at a time and client
	l = newClients(l)
	if certs != nil {
		s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: certs.certificate}
	}
	ended := make(chan error, 1)
	go func() {
		if certs != nil {
			ended <- s.ServeTLS(l, "", "")
			return
		}
		ended <- s.Serve(l)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patience, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	err := s.Shutdown(patience)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close()
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
