/* Threads that run the devices of one launch side by side: a caller takes a team, or makes one.
 *
 * Nobody waits for a team that another caller has, so launches cannot wait for each other crosswise.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim.h"

typedef struct Team {
    struct Team *next;
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    size_t num_threads;  /* beside the caller */
    size_t num_wanted;   /* seats that are free in this round */
    size_t num_working;
    void (*work)(void *argument, size_t index);
    void *argument;
    size_t count;
    atomic_size_t next_index;
} Team;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Team *idle;
HOLD_OVER_FORK(lock)

/* A child of fork has none of the threads. */
static void after_fork(void) { idle = NULL; }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

static void take_part(Team *team) {
    for (;;) {
        size_t index = atomic_fetch_add(&team->next_index, 1);
        if (index >= team->count) return;
        team->work(team->argument, index);
    }
}

static void *member(void *argument) {
    Team *team = argument;
    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (!team->num_wanted) pthread_cond_wait(&team->begun, &team->lock);
        team->num_wanted--;
        pthread_mutex_unlock(&team->lock);
        take_part(team);
        pthread_mutex_lock(&team->lock);
        if (!--team->num_working) pthread_cond_signal(&team->ended);
    }
    return NULL;
}

static Team *take_team(void) {
    pthread_mutex_lock(&lock);
    Team *team = idle;
    if (team) idle = team->next;
    pthread_mutex_unlock(&lock);
    if (team) return team;
    team = calloc(1, sizeof *team);
    if (!team) abort();
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->begun, NULL);
    pthread_cond_init(&team->ended, NULL);
    return team;
}

static void give_back(Team *team) {
    pthread_mutex_lock(&lock);
    team->next = idle;
    idle = team;
    pthread_mutex_unlock(&lock);
}

/* Sees to it that there are so many threads, which take no signals; how many there are. */
static size_t start_members(Team *team, size_t wanted) {
    sigset_t all, before;
    if (team->num_threads >= wanted) return wanted;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (team->num_threads < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, member, team)) break;
        pthread_detach(thread);
        team->num_threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return team->num_threads;
}

static size_t num_processors(void) {
    long found = sysconf(_SC_NPROCESSORS_ONLN);
    return found < 1 ? 1 : (size_t)found;
}

bool team_run(size_t count, bool at_once, void (*work)(void *argument, size_t index), void *argument) {
    size_t most = num_processors(), threads = at_once || count < most ? count : most;
    Team *team = take_team();
    size_t helpers = start_members(team, threads - 1);
    bool can_run = !at_once || helpers == threads - 1;
    if (can_run) {
        pthread_mutex_lock(&team->lock);
        team->work = work;
        team->argument = argument;
        team->count = count;
        atomic_store(&team->next_index, 0);
        team->num_wanted = team->num_working = helpers;
        if (helpers) pthread_cond_broadcast(&team->begun);
        pthread_mutex_unlock(&team->lock);
        take_part(team);
        pthread_mutex_lock(&team->lock);
        while (team->num_working) pthread_cond_wait(&team->ended, &team->lock);
        pthread_mutex_unlock(&team->lock);
    }
    give_back(team);
    return can_run;
}
