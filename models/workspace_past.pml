/* A database that is put back to what it was before (models/workspace.pml). */

#if PASTS > 0
/* A copy of the row, taken at any moment. */
bit copied;
byte past_desired;
bit past_delete_requested;
byte past_request;
byte past_operation;
byte past_step;
byte past_op_volume;
byte past_op_archive;
byte past_archive_key;
byte past_live;
byte past_error;
bit past_deleted;
bit past_sees_container;
bit past_sees_name;
bit past_sees_holder;
bit past_sees_volume;
bit past_sees_archive;
bit past_volume_lost;
bit past_archive_lost;
bit past_stale;
bit past_fresh;
byte past_volume_row[VOLUMES];
byte past_archive_row[ARCHIVES];
byte past_dead_epoch[VOLUMES];

inline copy() {
  copied = 1;
  past_desired = desired;
  past_delete_requested = delete_requested;
  past_request = request;
  past_operation = operation;
  past_step = step;
  past_op_volume = op_volume;
  past_op_archive = op_archive;
  past_archive_key = archive_key;
  past_live = live;
  past_error = error;
  past_deleted = deleted;
  past_sees_container = sees_container;
  past_sees_name = sees_name;
  past_sees_holder = sees_holder;
  past_sees_volume = sees_volume;
  past_sees_archive = sees_archive;
  past_volume_lost = volume_lost;
  past_archive_lost = archive_lost;
  past_stale = stale;
  past_fresh = fresh;
  i = 0;
  do
  :: i < VOLUMES -> past_volume_row[i] = volume_row[i]; past_dead_epoch[i] = dead_epoch[i]; i++
  :: i == VOLUMES -> break
  od;
  i = 0;
  do
  :: i < ARCHIVES -> past_archive_row[i] = archive_row[i]; i++
  :: i == ARCHIVES -> break
  od;
  i = 0
}

/* All processes are stopped for it; what they asked of a driver may still come. */
inline put_back() {
  rolled_back = 1;
  of_this_op = of_this_op && past_operation == operation && past_op_archive == op_archive;
  did = 0;
  held = 0;
  held_epoch = 0;
  same_rev[0] = 0;
  same_rev[1] = 0;
  same_look[0] = 0;
  same_look[1] = 0;
  z_op[0] = 0;
  z_op[1] = 0;
  desired = past_desired;
  past_desired = 0;
  delete_requested = past_delete_requested;
  past_delete_requested = 0;
  request = past_request;
  past_request = 0;
  operation = past_operation;
  past_operation = 0;
  step = past_step;
  past_step = 0;
  op_volume = past_op_volume;
  past_op_volume = 0;
  op_archive = past_op_archive;
  past_op_archive = 0;
  archive_key = past_archive_key;
  past_archive_key = 0;
  live = past_live;
  past_live = 0;
  error = past_error;
  past_error = 0;
  deleted = past_deleted;
  past_deleted = 0;
  sees_container = past_sees_container;
  past_sees_container = 0;
  sees_name = past_sees_name;
  sees_holder = past_sees_holder;
  past_sees_holder = 0;
  past_sees_name = 0;
  sees_volume = past_sees_volume;
  past_sees_volume = 0;
  sees_archive = past_sees_archive;
  past_sees_archive = 0;
  volume_lost = past_volume_lost;
  past_volume_lost = 0;
  archive_lost = past_archive_lost;
  past_archive_lost = 0;
  stale = past_stale;
  past_stale = 0;
  fresh = past_fresh;
  past_fresh = 0;
  i = 0;
  do
  :: i < VOLUMES -> 
     volume_row[i] = past_volume_row[i];
     past_volume_row[i] = 0;
     dead_epoch[i] = past_dead_epoch[i];
     past_dead_epoch[i] = 0;
     i++
  :: i == VOLUMES -> break
  od;
  i = 0;
  do
  :: i < ARCHIVES -> archive_row[i] = past_archive_row[i]; past_archive_row[i] = 0; i++
  :: i == ARCHIVES -> break
  od;
  i = 0
}
#endif
