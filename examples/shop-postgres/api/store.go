package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

var errNoOrder = errors.New("no such order")

// order is one order, as it is listed.
type order struct {
	Order     int64  `json:"order"`
	Item      string `json:"item"`
	Qty       int    `json:"qty"`
	Cancelled bool   `json:"cancelled,omitempty"`
}

// cacheKey is where Redis has the last list.
const cacheKey = "orders"

// store keeps orders in PostgreSQL and lists in Redis. Connections are made when they are needed.
type store struct {
	pg    *pgxpool.Pool
	redis *redis.Client
	buggy bool
}

func openStore(url, redisAddr string, buggy bool) (*store, error) {
	pg, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	return &store{
		pg: pg,
		// Without a retry one refusal is one refusal; the shop works without Redis anyway.
		redis: redis.NewClient(&redis.Options{Addr: redisAddr, MaxRetries: -1, DialerRetries: 1}),
		buggy: buggy,
	}, nil
}

// ready tries PostgreSQL with a connection of its own: a server that accepts may still be starting.
func (s *store) ready(ctx context.Context) error {
	c, err := pgx.ConnectConfig(ctx, s.pg.Config().ConnConfig)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

func (s *store) put(ctx context.Context, o order) (id int64, err error) {
	err = s.pg.QueryRow(ctx, `INSERT INTO orders (item, qty) VALUES ($1, $2) RETURNING id`, o.Item, o.Qty).Scan(&id)
	if err != nil && s.buggy {
		log.Print("written later: ", err)
		return s.putBehind(ctx, o)
	}
	if err != nil {
		return 0, fmt.Errorf("postgres: %w", err)
	}
	s.forget(ctx)
	return id, nil
}

// putBehind is the bug: nobody ever brings these orders to PostgreSQL.
func (s *store) putBehind(ctx context.Context, o order) (int64, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return 0, err
	}
	n, err := s.redis.RPush(ctx, "pending", text).Result()
	if err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	return 1_000_000 + n, nil
}

func (s *store) cancel(ctx context.Context, id int64) error {
	tag, err := s.pg.Exec(ctx, `UPDATE orders SET cancelled = true WHERE id = $1`, id)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errNoOrder
	}
	s.forget(ctx)
	return nil
}

// list returns all orders as JSON, the oldest first.
func (s *store) list(ctx context.Context) ([]byte, error) {
	text, err := s.redis.Get(ctx, cacheKey).Bytes()
	if err == nil {
		return text, nil
	}
	if !errors.Is(err, redis.Nil) {
		log.Print("redis: ", err)
	}
	rows, err := s.pg.Query(ctx, `SELECT id, item, qty, cancelled FROM orders ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	defer rows.Close()
	all := []order{}
	for rows.Next() {
		var o order
		if err := rows.Scan(&o.Order, &o.Item, &o.Qty, &o.Cancelled); err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
		all = append(all, o)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if text, err = json.Marshal(all); err != nil {
		return nil, err
	}
	if err := s.redis.Set(ctx, cacheKey, text, 0).Err(); err != nil {
		log.Print("redis: ", err)
	}
	return text, nil
}

// forget takes the list out of Redis, since an order has changed.
func (s *store) forget(ctx context.Context) {
	if err := s.redis.Del(ctx, cacheKey).Err(); err != nil {
		log.Print("redis: ", err)
	}
}
